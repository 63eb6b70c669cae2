"""Mode custom: code of the builder says who calls, where no standard of tokens or keys fits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from multidict import MultiMapping

from rowgate.auth.principal import Principal
from rowgate.auth.refusal import refused
from rowgate.errors import AuthenticationError, CredentialsMissing, IdentityUnavailable
from rowgate.observe.events import Defect, Emit, discard

GROUP: Final = "rowgate.authenticators"
"""The entry-point group of authenticators."""
TIMEOUT: Final = 10.0
"""Seconds that one may take."""


class AuthenticatorHook(Protocol):
    async def authenticate(self, headers: Mapping[str, str]) -> Principal | None:
        """The verified caller, or None to refuse. `headers` ignore the case of names."""


class CustomAuthenticator:
    """Nothing but a principal is a caller; whatever the code raises lets nobody in."""

    def __init__(self, hook: Any, name: str, *, emit: Emit = discard, timeout: float = TIMEOUT) -> None:
        """Raises TypeError when the object has no `authenticate`."""
        if not callable(getattr(hook, "authenticate", None)):
            raise TypeError(f"{name} has no authenticate")
        self._hook = hook
        self._name = name
        self._emit = emit
        self._timeout = timeout

    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        """Raises AuthenticationError or IdentityUnavailable."""
        try:
            async with asyncio.timeout(self._timeout):
                caller = await self._hook.authenticate(headers)
        except AuthenticationError:
            caller = None  # a bounded reason is ours to give
        except Exception as error:
            raise self._failed(error) from None
        if caller is None:
            raise refused("custom") if "Authorization" in headers else CredentialsMissing(reason="missing")
        if not isinstance(caller, Principal) or (caller.kind == "user" and not caller.subject):
            raise self._failed(TypeError("authenticate returned no principal"))
        return caller

    def _failed(self, error: Exception) -> IdentityUnavailable:
        self._emit(Defect(f"authenticator {self._name}", error))
        return IdentityUnavailable(reason="authenticator")
