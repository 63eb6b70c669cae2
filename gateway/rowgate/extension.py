"""Code of the builder that runs in the gateway's own process, named in the configuration."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from typing import Any

from rowgate.errors import StartError


def load(reference: str, group: str) -> Any:
    """The object that `package.module:object` or an entry point of `group` names; of a class an instance.

    Raises StartError. It runs whatever the module runs: only the configuration may name it."""
    try:
        found = _imported(reference) if ":" in reference else _entry_point(reference, group)
        return found() if isinstance(found, type) else found
    except StartError:
        raise
    except Exception as error:
        # Not chained and not quoted: its message may hold whatever the module read.
        raise StartError(f"{reference} could not be loaded: {type(error).__name__}.") from None


def _imported(reference: str) -> Any:
    module, _, path = reference.partition(":")
    return attrgetter(path)(import_module(module))


def _entry_point(name: str, group: str) -> Any:
    found = entry_points(group=group, name=name)
    if not found:
        raise StartError(f"No installed package has an entry point {name} in the group {group}.")
    if len(found) > 1:
        raise StartError(f"Several installed packages have an entry point {name} in the group {group}.")
    (entry,) = found
    return entry.load()
