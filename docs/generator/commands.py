"""`cli.md`: every command, from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from generator.page import code, table
from rowgate.cli import main


def body() -> str:
    return "\n\n".join(_section(path, command) for path, command in commands())


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name, groups before what they hold."""
    waiting: list[tuple[str, click.Command]] = [("rowgate", main)]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=path)
            inner = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
            waiting[:0] = [(f"{path} {name}", found) for name, found in inner if found is not None]


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    parts = [f"## {code(path)}", f"    {usage}", inspect.cleandoc(command.help or "")]
    options = [parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option)]
    rows = [(_names(option), option.help or "", _default(option)) for option in options if "--help" not in option.opts]
    if rows:
        parts.append(table(("option", "meaning", "default"), rows))
    return "\n\n".join(parts)


def _names(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.type.name.split()[0].upper()}"
    return ", ".join(code(f"{name}{value}") for name in option.opts)


def _default(option: click.Option) -> str:
    default = code(str(option.default)) if option.show_default and not option.is_flag else ""
    if option.envvar:
        return f"{default}, or {code(str(option.envvar))} from the environment"
    return default
