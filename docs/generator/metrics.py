"""`metrics.md`: every metric family, from the exposition itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from generator import samples
from generator.page import code, codes, table
from rowgate.auth.refusal import CredentialReason, KeyReason, SessionReason
from rowgate.auth.refusal import Reason as TokenReason
from rowgate.observe.events import (
    CatalogLoaded,
    ExitCause,
    IdentityAsked,
    KeysRefreshed,
    Limit,
    LimitStoreFailed,
    RequestFinished,
)
from rowgate.policy.capability import Reason as QuarantineReason

_BUILT_IN = frozenset({"le", "quantile"})


def body() -> str:
    rows = [(code(_name(family)), family.type, codes(_labels(family)), family.documentation) for family in families()]
    return "\n\n".join(
        [
            f"## Metrics\n\n{table(('name', 'type', 'labels', 'meaning'), rows)}",
            f"## Values of labels\n\n{table(('metric', 'label', 'values'), _values())}",
            f"## Security notices\n\n{table(('reason', 'what the log says'), _notices())}",
        ]
    )


def families() -> list[Metric]:
    text, _ = samples.metrics().render("text/plain")
    every = text_string_to_metric_families(text.decode())
    # What the system tells of the process is not the same on every system.
    found = [family for family in every if not family.name.startswith("process_")]
    if empty := [family.name for family in found if not family.samples]:
        raise ValueError(f"no sample event counts these: {', '.join(empty)}")
    return found


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def _labels(family: Metric) -> list[str]:
    labels = {name: None for sample in family.samples for name in sample.labels}
    return [name for name in labels if name not in _BUILT_IN]


def _values() -> list[tuple[str, str, str]]:
    return [
        ("`rowgate_identity_checks_total`", "`source`", codes(_choices(IdentityAsked, "source"))),
        ("`rowgate_identity_checks_total`", "`outcome`", codes(_choices(IdentityAsked, "outcome"))),
        ("`rowgate_mcp_requests_total`", "`outcome`", codes(_choices(RequestFinished, "outcome"))),
        ("`rowgate_auth_refusals_total`", "`reason`", codes(_refusal_reasons())),
        ("`rowgate_jwks_refreshes_total`", "`outcome`", codes(_choices(KeysRefreshed, "outcome"))),
        ("`rowgate_catalog_loads_total`", "`outcome`", codes(_choices(CatalogLoaded, "outcome"))),
        ("`rowgate_capabilities_quarantined_total`", "`reason`", codes(get_args(QuarantineReason))),
        ("`rowgate_limit_decisions_total`", "`limit`", codes(get_args(Limit))),
        ("`rowgate_limit_decisions_total`", "`decision`", codes(("allowed", "refused"))),
        ("`rowgate_limit_store_errors_total`", "`decision`", codes(_choices(LimitStoreFailed, "decision"))),
        ("`rowgate_plugin_exits_total`", "`cause`", codes(get_args(ExitCause))),
        ("`rowgate_security_notices_total`", "`reason`", codes(samples.notices())),
    ]


def _refusal_reasons() -> Iterable[str]:
    """A word may say the same of the header and of the token."""
    of_tokens = (*get_args(CredentialReason), *get_args(TokenReason))
    others = (*get_args(KeyReason), "aal", *get_args(SessionReason), "credential_refused")
    return dict.fromkeys(("missing", *of_tokens, *others))


def _choices(event: type[Any], member: str) -> tuple[str, ...]:
    return get_args(get_type_hints(event)[member])


def _notices() -> list[tuple[str, str]]:
    return [(code(reason), detail) for reason, detail in samples.notices().items()]
