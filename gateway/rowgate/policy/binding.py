"""One plugin's offer joined with what one server's entries declare of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from mcp.shared.inbound import x_mcp_header_map
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate

from rowgate.policy.arguments import ArgumentSchema
from rowgate.policy.capability import IDENTITY, KINDS, Capability, Finding, Kind, Reason
from rowgate.policy.declarations import Claim, Declarations
from rowgate.policy.inspection import problem, says_enough, with_defaults, with_hints
from rowgate.policy.names import MAX_NAME_LENGTH, MAX_PREFIXED_NAME_LENGTH, public_name

if TYPE_CHECKING:
    from rowgate.policy.offers import Offer

HintsMode = Literal["require", "default"]
_PREFIXED: frozenset[Kind] = frozenset({"tool", "prompt"})


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one plugin contributes to one server's catalog."""

    plugin: str
    declarations: Declarations
    capabilities: tuple[Capability, ...] = ()
    findings: tuple[Finding, ...] = ()
    withheld: frozenset[str] = frozenset()
    """URIs that the plugin lists and this server does not serve: no template or pattern opens them either."""
    other_templates: tuple[UriTemplate, ...] = field(default=(), repr=False)
    """Templates that the plugin offers and this server does not."""
    reads: bool = False
    """Whether the plugin has resources at all."""
    completes: bool = False
    absent: frozenset[Kind] = frozenset()
    """Kinds of which nothing is known: their list could not be had."""
    partial: frozenset[Kind] = frozenset()
    """Kinds of which not everything is known: those, and lists that were cut off."""


def bind(declarations: Declarations, offer: Offer, hints: HintsMode, *, per_caller: bool) -> Part:
    """`per_caller`: that something declared is not offered to this caller is no finding then."""
    binder = _Binder(declarations, offer.plugin, hints)
    for method, kind in KINDS.items():
        items = offer.items(method)
        if items is not None:
            binder.take(kind, items)
            if not per_caller:
                binder.miss(kind, items)
    return Part(
        plugin=offer.plugin,
        declarations=declarations,
        capabilities=tuple(binder.capabilities),
        findings=tuple(binder.findings),
        withheld=frozenset(binder.withheld),
        other_templates=tuple(binder.other_templates),
        reads="resources" in offer.capabilities
        or any(offer.items(method) for method in ("resources/list", "resources/templates/list")),
        completes="completions" in offer.capabilities,
        absent=frozenset(kind for method, kind in KINDS.items() if offer.items(method) is None),
        partial=frozenset(kind for method, kind in KINDS.items() if not offer.whole(method)),
    )


class _Binder:
    def __init__(self, declarations: Declarations, plugin: str, hints: HintsMode) -> None:
        self._declarations = declarations
        self._plugin = plugin
        self._hints = hints
        self.capabilities: list[Capability] = []
        self.findings: list[Finding] = []
        self.withheld: set[str] = set()
        self.other_templates: list[UriTemplate] = []

    def take(self, kind: Kind, items: tuple[dict[str, Any], ...]) -> None:
        for identity, offered in _by_identity(kind, items).items():
            claims = self._declarations.claims(kind, identity)
            capability = self._accept(kind, identity, offered, claims) if claims else None
            if capability is not None:
                self.capabilities.append(capability)
            elif kind == "resource":
                self.withheld.add(identity)
            elif kind == "template":
                self._keep_out(identity)

    def miss(self, kind: Kind, items: tuple[dict[str, Any], ...]) -> None:
        """Finds exact names that the plugin does not offer."""
        offered = set(_by_identity(kind, items))
        for name in self._declarations.exact_names(kind):
            if name not in offered:
                self._find(name, "not_offered", f"the plugin offers no {kind} of this name")

    def _accept(
        self, kind: Kind, identity: str, offered: list[dict[str, Any]], claims: tuple[Claim, ...]
    ) -> Capability | None:
        entry = claims[0].declaration
        prefix = entry.prefix if kind in _PREFIXED else None
        refusal = _refusal(kind, identity, prefix, offered, claims)
        if refusal is not None:
            self._find(identity, *refusal)
            return None
        definition = (
            self._described(with_hints(offered[0], entry.hints.get(identity))) if kind == "tool" else offered[0]
        )
        if definition is None:
            return None
        arguments = None
        if kind == "tool" and entry.judged:
            try:
                arguments = ArgumentSchema(definition["inputSchema"])
            except ValueError:
                self._find(identity, "invalid", "its inputSchema is no JSON Schema, so arguments cannot be judged")
                return None
        name = public_name(prefix, identity)
        return Capability(
            kind=kind,
            plugin=self._plugin,
            name=name,
            inner=identity,
            requirement=entry.requirement,
            definition={**definition, "name": name} if kind in _PREFIXED else definition,
            param_headers=MappingProxyType(x_mcp_header_map(definition.get("inputSchema"))),
            template=UriTemplate.parse(identity) if kind == "template" else None,
            limits=entry.limits,
            meta=entry.meta,
            arguments=arguments,
        )

    def _described(self, tool: dict[str, Any]) -> dict[str, Any] | None:
        if says_enough(tool):
            return tool
        if self._hints == "require":
            self._find(tool["name"], "no_hints", "it needs a title, and readOnlyHint or destructiveHint")
            return None
        self._find(tool["name"], "hints_defaulted", "served with its name as title and conservative hints")
        return with_defaults(tool)

    def _keep_out(self, template: str) -> None:
        try:
            self.other_templates.append(UriTemplate.parse(template))
        except InvalidUriTemplate:
            pass  # matches nothing, so it opens nothing

    def _find(self, name: str, reason: Reason, detail: str) -> None:
        self.findings.append(Finding(self._plugin, name[:MAX_NAME_LENGTH], reason, detail))


def _refusal(
    kind: Kind, identity: str, prefix: str | None, offered: list[dict[str, Any]], claims: tuple[Claim, ...]
) -> tuple[Reason, str] | None:
    if len(claims) > 1:
        return "collision", "several entries declare it"
    if len(offered) > 1:
        return "collision", "the plugin offers it more than once, differently"
    complaint = problem(kind, offered[0])
    if complaint is None and prefix and len(public_name(prefix, identity)) > MAX_PREFIXED_NAME_LENGTH:
        complaint = f"with its prefix the name is over {MAX_PREFIXED_NAME_LENGTH} characters"
    return ("invalid", complaint) if complaint else None


def _by_identity(kind: Kind, items: tuple[dict[str, Any], ...]) -> dict[str, list[dict[str, Any]]]:
    """In the plugin's order. The same definition again is not another one: pages may overlap while a list changes."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        identity = item.get(IDENTITY[kind])
        if isinstance(identity, str):
            same = grouped.setdefault(identity, [])
            # Two are a collision; comparing each with all would take as long as a plugin wants.
            if len(same) < 2 and item not in same:
                same.append(item)
    return grouped
