"""Which plugin a resource URI belongs to, and what reading it takes. A read goes to one plugin or to none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rowgate.policy.capability import Capability
from rowgate.policy.names import plain_uri
from rowgate.policy.rules import Requirement

if TYPE_CHECKING:
    from rowgate.policy.binding import Part
    from rowgate.policy.declarations import Claim


@dataclass(frozen=True, slots=True)
class Owner:
    capability: Capability
    requirement: Requirement
    """Of everything declared that covers the URI: nobody can know which of its own rules the plugin will follow."""


class ResourceIndex:
    """`listed` are the resources that the catalog serves; `closed` are URIs that stay shut whatever covers them."""

    def __init__(self, parts: Iterable[Part], listed: Mapping[str, Capability], closed: frozenset[str]) -> None:
        self._listed = listed
        self._closed = closed
        # Without the whole of both lists nobody knows what a template or a pattern would open beside what was meant.
        known = [part for part in parts if part.reads and part.partial.isdisjoint(("resource", "template"))]
        self._areas = tuple(_Area(part, closed) for part in known)

    def owner(self, uri: str) -> Owner | None:
        listed = self._listed.get(uri)
        if listed is not None:
            return Owner(listed, listed.requirement)
        if uri in self._closed or not plain_uri(uri):
            return None
        owners = [owner for area in self._areas if (owner := area.owner(uri)) is not None]
        return owners[0] if len(owners) == 1 else None


class _Area:
    """What one plugin covers beyond its list: instances of templates, and URIs that a pattern names."""

    def __init__(self, part: Part, closed: frozenset[str]) -> None:
        templates = [capability for capability in part.capabilities if capability.kind == "template"]
        self._part = part
        self._templates = [template for template in templates if template.name not in closed]
        self._others = (
            *part.other_templates,
            *(shut.template for shut in templates if shut.name in closed and shut.template is not None),
        )

    def owner(self, uri: str) -> Owner | None:
        if uri in self._part.withheld:
            return None
        templates = [capability for capability in self._templates if _instance(capability, uri)]
        stranger = any(template.match(uri) is not None for template in self._others)
        claims = self._part.declarations.claims("resource", uri)
        if len(claims) > 1:
            return None
        if claims:
            return self._claimed(uri, claims[0], templates, templated=bool(templates) or stranger)
        # A template that no entry declares covers it too, and the plugin might serve that one.
        if not templates or stranger:
            return None
        return Owner(templates[0], Requirement.all_of(template.requirement for template in templates))

    def _claimed(self, uri: str, claim: Claim, templates: list[Capability], *, templated: bool) -> Owner | None:
        declared = claim.declaration.requirement
        if claim.pattern.exact:
            # Declared by name, not listed: it exists only if a template makes it.
            return Owner(self._named(claim, uri), declared) if templated else None
        requirement = Requirement.all_of((declared, *(template.requirement for template in templates)))
        if not templates:
            return Owner(self._named(claim, uri), requirement)
        # The entry that names the URI limits it too, where the template's own has no limits.
        limits = templates[0].limits or claim.declaration.limits
        served = templates[0] if limits is templates[0].limits else replace(templates[0], limits=limits)
        return Owner(served, requirement)

    def _named(self, claim: Claim, uri: str) -> Capability:
        """A capability without a definition: it is served and never listed."""
        return Capability(
            kind="resource",
            plugin=self._part.plugin,
            name=claim.pattern.text,
            inner=uri,
            requirement=claim.declaration.requirement,
            definition={},
            meta=claim.declaration.meta,
            limits=claim.declaration.limits,
        )


def _instance(capability: Capability, uri: str) -> bool:
    return capability.template is not None and capability.template.match(uri) is not None
