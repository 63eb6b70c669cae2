"""What a plugin process reads from its environment at start."""

from __future__ import annotations

from typing import Final

EXIT_CONFIGURATION: Final = 78
"""EX_CONFIG of sysexits.h: the process was told something that it must not start with."""


class SettingsError(Exception):
    """A setting is missing or must not be used; the message names the variable and never its value."""
