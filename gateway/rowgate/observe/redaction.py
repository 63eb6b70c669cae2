"""The last look at what is about to be logged: whatever looks like a credential is dropped.

Nothing in the gateway hands credentials to the log. This is for the text of others: exception messages, libraries'
own log records, and clients that put a token where a name belongs.
"""

from __future__ import annotations

import re

MARK = "[redacted]"
LONG = 40
"""Characters from which a run of letters and digits is taken for key material."""

_TOKEN = r"[A-Za-z0-9._~+/=%-]"
_VALUE = r"""(?:(?:bearer|basic|dpop)\s+)?(?:\\?"[^"\n]*"|\\?'[^'\n]*'|[^\s"'&,;)}\]]+)"""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    # A header and everything after it on its line: a Cookie or an unknown scheme has no shape to look for.
    (re.compile(r"(?i)(authorization|cookie|api-?key|rowgate-context)[\"'\s)]*[:=,][^\n]*"), rf"\1: {MARK}"),
    (
        re.compile(
            rf"(?i)(token|secret|passw(?:or)?d|api_key|code_verifier|signing_key)((?:\\?[\"'])?\s*[:=]\s*){_VALUE}"
        ),
        rf"\1\2{MARK}",
    ),
    (re.compile(rf"(?i)\b(bearer|dpop)(?:[\s:='\"]|%20|\\+[nrt])+{_TOKEN}+"), rf"\1 {MARK}"),
    (re.compile(rf"(?i)\b(basic)\s+{_TOKEN}{{8,}}"), rf"\1 {MARK}"),
    (re.compile(rf"eyJ{_TOKEN}*"), MARK),
    (re.compile(r"sb(?:_secret_|p_)[A-Za-z0-9_-]*"), MARK),
)
_RUN = re.compile(rf"[A-Za-z0-9_-]{{{LONG},}}")
_KINDS = tuple(re.compile(kind) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def redact(text: str) -> str:
    """`text` without anything that looks like a credential."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _RUN.sub(_judge_run, text)


def may_hold_secret(line: str) -> bool:
    """A cheap screen for the hot path: false only where no rule but that of long runs would find anything."""
    low = line.lower()
    return (
        "eyj" in low
        or "bearer" in low
        or "token" in low
        or "secret" in low
        or "sbp_" in low
        or "passw" in low
        or "cookie" in low
        or "authoriz" in low
        or "key" in low
        or "basic" in low
        or "dpop" in low
        or "rowgate-context" in low
        or "code_verifier" in low
    )


def _judge_run(run: re.Match[str]) -> str:
    """Identifiers and digests have one or two kinds of characters, key material has all three."""
    text = run.group()
    return MARK if all(kind.search(text) for kind in _KINDS) else text
