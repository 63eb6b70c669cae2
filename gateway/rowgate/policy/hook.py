"""Rules in code. A builder's object with either or both methods of `PolicyHook` decides what YAML cannot say."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rowgate.errors import HookFailed, RefusedByHook
from rowgate.observe.events import Defect, Emit, discard

if TYPE_CHECKING:
    from rowgate.auth.principal import Principal
    from rowgate.policy.capability import Capability

TIMEOUT = 10.0
"""Seconds that `authorize` may take."""
_WORD = re.compile(r"[A-Z][A-Z0-9_]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Denial:
    """A no, with a sentence that the model reads and a word that a client can tell apart, such as `OUTSIDE_HOURS`."""

    sentence: str
    code: str = "FORBIDDEN"


class PolicyHook(Protocol):
    """Of `capability` the attributes kind, plugin, name, inner, meta and definition are stable."""

    async def authorize(
        self, principal: Principal, capability: Capability, arguments: Mapping[str, Any]
    ) -> Denial | None:
        """Asked before each call. `arguments` fit the tool's input schema; of a resource they are its `uri`."""

    def visible(self, principal: Principal, capability: Capability) -> bool:
        """Asked for lists and calls alike: what is not visible does not exist for this caller."""


class Hook:
    """A hook whose failures are refusals."""

    def __init__(self, hook: Any, name: str, *, emit: Emit = discard, timeout: float = TIMEOUT) -> None:
        """Raises TypeError when the object has neither method."""
        self._authorize = getattr(hook, "authorize", None)
        self._visible = getattr(hook, "visible", None)
        if not callable(self._authorize) and not callable(self._visible):
            raise TypeError(f"{name} has neither authorize nor visible")
        self._name = name
        self._emit = emit
        self._timeout = timeout

    def shows(self, principal: Principal, capability: Capability) -> bool:
        """Raises HookFailed. Nothing but True is a yes."""
        if self._visible is None:
            return True
        try:
            answer = self._visible(principal, capability)
        except Exception as error:
            raise self._failed("visible", error) from None
        if not isinstance(answer, bool):
            raise self._failed("visible", TypeError(f"visible returned {type(answer).__name__}"))
        return answer

    async def authorize(self, principal: Principal, capability: Capability, arguments: Mapping[str, Any]) -> None:
        """Raises RefusedByHook or HookFailed. Nothing but None is a yes."""
        if self._authorize is None:
            return
        try:
            async with asyncio.timeout(self._timeout):
                # A copy: what was validated is what will be forwarded, whatever the hook does to it.
                answer = await self._authorize(principal, capability, deepcopy(arguments))
        except Exception as error:
            raise self._failed("authorize", error) from None
        if isinstance(answer, Denial):
            raise RefusedByHook(answer.sentence, answer.code if _WORD.fullmatch(answer.code) else "")
        if answer is not None:
            raise self._failed("authorize", TypeError(f"authorize returned {type(answer).__name__}"))

    def _failed(self, method: str, error: Exception) -> HookFailed:
        self._emit(Defect(f"{method} of the hook {self._name}", error))
        return HookFailed()
