"""The gateway of `tests/flow`, seen from outside by somebody who means harm."""

from __future__ import annotations

from flow.conftest import notes, running, stack, start, tokens

__all__ = ["notes", "running", "stack", "start", "tokens"]
