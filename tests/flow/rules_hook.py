"""A builder's hook, as a configuration names it: rules that YAML cannot say."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

from rowgate.auth.principal import Principal
from rowgate.observe.events import RequestFinished
from rowgate.policy.hook import Denial


class Hook:
    """Notes that say `secret` are not for everybody; a tool marked `internal` is for members of staff."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []

    def visible(self, principal: Any, capability: Any) -> bool:
        if capability.meta.get("broken") == "visible":
            raise RuntimeError("a defect of the builder's")
        return not capability.meta.get("internal") or "staff" in principal.roles

    async def authorize(self, principal: Any, capability: Any, arguments: Mapping[str, Any]) -> Denial | None:
        self.asked.append((principal.subject, capability.name, arguments))
        if capability.meta.get("broken") == "authorize":
            raise RuntimeError("a defect of the builder's")
        if "secret" in str(arguments.get("text", "")):
            return Denial("Secrets are read by people.", "PEOPLE_ONLY")
        return None


hook = Hook()


class Sink:
    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.events: list[Any] = []
        self.finished = threading.Event()
        """Set when a request was recorded."""

    def __call__(self, event: Any) -> None:
        self.events.append(event)
        if isinstance(event, RequestFinished):
            self.finished.set()


sink = Sink()


class Callers:
    """Who calls, by a header that a proxy of the builder's sets."""

    async def authenticate(self, headers: Any) -> Principal | None:
        name = headers.get("X-Acme-User")
        if name == "broken":
            raise RuntimeError("a defect of the builder's")
        if name == "nonsense":
            return cast(Principal, name)
        return Principal(kind="application", subject=name, issuer="acme", roles=frozenset({"editor"})) if name else None


callers = Callers()
