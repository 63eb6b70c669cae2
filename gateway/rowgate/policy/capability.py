"""One thing that a server exposes, as its plugin offered it and its entry declared it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from mcp.shared.uri_template import UriTemplate

from rowgate.observe.events import CapabilityQuarantined
from rowgate.policy.arguments import ArgumentSchema
from rowgate.policy.rules import Requirement

if TYPE_CHECKING:
    from rowgate.config.limits import EntryLimits

Kind = Literal["tool", "prompt", "resource", "template"]
Reason = Literal["not_offered", "invalid", "collision", "no_hints", "hints_defaulted"]

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "tools/list": "tool",
        "prompts/list": "prompt",
        "resources/list": "resource",
        "resources/templates/list": "template",
    }
)
"""The list method that offers each kind."""

IDENTITY: Mapping[Kind, str] = MappingProxyType(
    {"tool": "name", "prompt": "name", "resource": "uri", "template": "uriTemplate"}
)
"""The member of a definition by which a plugin is asked for it."""

ADVERTISED: Mapping[Kind, str] = MappingProxyType(
    {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "resources"}
)
"""The member of `capabilities` in discover and initialize that stands for each kind."""

NO_META: Mapping[str, Any] = MappingProxyType({})
_NO_HEADERS: Mapping[tuple[str, ...], str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Capability:
    kind: Kind
    plugin: str
    name: str
    """What clients call it: with the prefix of its entry. A resource's URI, a template's text."""
    inner: str
    """What its plugin calls it."""
    requirement: Requirement
    definition: dict[str, Any] = field(repr=False)
    """As listed. Shared by all callers: whoever converts it for one of them copies it first."""
    param_headers: Mapping[tuple[str, ...], str] = field(default_factory=lambda: _NO_HEADERS, repr=False)
    """For tools: the argument path of each `x-mcp-header` annotation and its header token."""
    template: UriTemplate | None = field(default=None, repr=False)
    limits: EntryLimits | None = None
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META, repr=False)
    """What its entry tells rules and hooks of it. Clients never see it."""
    arguments: ArgumentSchema | None = field(default=None, repr=False)
    """For tools whose arguments somebody other than the plugin judges."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {}


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a declared capability is not served, or is served otherwise than it was offered."""

    plugin: str
    capability: str
    reason: Reason
    detail: str = ""

    def event(self, server: str) -> CapabilityQuarantined:
        return CapabilityQuarantined(self.plugin, self.capability, self.reason, f"server {server}: {self.detail}")
