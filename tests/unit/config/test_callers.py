"""What is found wrong with how a server establishes who calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from rowgate.config.load import Checked

Check = Callable[..., Checked]
HASH = "sha256:" + "0" * 64
OWN = "issuer: https://id.example.com, audience: [rowgate]"
JWKS = "jwks_url: https://id.example.com/jwks"
SECRETS = {"LONG": "0123456789abcdef" * 2, "SHORT": "0123456789", "DULL": "ab" * 20}
ACKNOWLEDGED = "mode: public, acknowledge: Anyone can call this server without signing in."
LIMITED = "\n    limits: {address: 60/minute}"


@pytest.fixture
def judged(check: Check, minimal: str) -> Callable[..., list[tuple[str, str, str]]]:
    """Severity, path and message of what is wrong with this `auth` section."""

    def judge(auth: str, more: str = "", project: str = "") -> list[tuple[str, str, str]]:
        text = minimal.replace("auth: {mode: oauth}", f"auth: {{{auth}}}{more}")
        text = text.replace('"https://acme.supabase.co"}', f'"https://acme.supabase.co"{project}}}')
        return [
            (it.severity, it.path.removeprefix("servers.main."), it.message) for it in check(text, **SECRETS).problems
        ]

    return judge


Judge = Callable[..., list[tuple[str, str, str]]]
KEYS = ", publishable_key: {env: SUPABASE_PUBLISHABLE_KEY}, secret_key: {env: SUPABASE_SECRET_KEY}"


@pytest.mark.parametrize(
    ("auth", "more", "project"),
    [
        ("mode: oauth, session: {check: 30s, confirmed_email: true}", "", KEYS),
        ("mode: bearer, session: {check: per_call}, min_aal: aal2", "", KEYS),
        ("mode: oauth, clients: [a]", "", ""),
        ("mode: oauth", "", ", jwt_secret: {env: LONG}"),
        (f"mode: oauth, supabase: true, issuers: [{{{OWN}, {JWKS}}}]", "", ""),
        (
            f"mode: api-key, keys: [{{name: a, subject: b, hash: '{HASH}'}}, {{name: c, subject: b, hash: '{HASH}'}}]",
            "",
            "",
        ),
        ("mode: api-key, lookup: {function: rowgate_api_key}", "", KEYS),
        (ACKNOWLEDGED, LIMITED, ""),
    ],
)
def test_what_makes_sense_is_accepted(judged: Judge, auth: str, more: str, project: str) -> None:
    assert [it for it in judged(auth, more, project) if it[1] != "supabase"] == []


@pytest.mark.parametrize(
    ("auth", "path", "phrase"),
    [
        # settings that would do nothing
        ("mode: oauth, keys: [{name: a, subject: b, hash: 'HASH'}]", "auth.keys", "does nothing in mode oauth"),
        ("mode: oauth, lookup: {function: f}", "auth.lookup", "does nothing in mode oauth"),
        ("mode: bearer, acknowledge: Yes.", "auth.acknowledge", "does nothing in mode bearer"),
        ("API_KEY, min_aal: aal2", "auth.min_aal", "does nothing in mode api-key"),
        ("API_KEY, clients: [a]", "auth.clients", "does nothing in mode api-key"),
        ("API_KEY, require_client: false", "auth.require_client", "does nothing in mode api-key"),
        ("API_KEY, session: {check: 30s}", "auth.session", "does nothing in mode api-key"),
        ("API_KEY, supabase: false", "auth.supabase", "does nothing in mode api-key"),
        ("API_KEY, issuer: {OWN, JWKS}", "auth.issuer", "does nothing in mode api-key"),
        ("PUBLIC, anonymous_users: true", "auth.anonymous_users", "does nothing in mode public"),
        ("mode: oauth, session: {on_error: accept}", "auth.session.on_error", "does nothing while check is never"),
        ("mode: oauth, session: {confirmed_email: true}", "auth.session.confirmed_email", "does nothing while"),
        # issuers
        ("mode: oauth, supabase: false", "auth", "has nobody who issues tokens"),
        ("mode: oauth, issuer: {OWN}", "auth.issuer.jwks_url", "is missing"),
        ("mode: oauth, issuers: [{OWN}]", "auth.issuers[0].jwks_url", "is missing"),
        ("mode: oauth, issuer: {OWN, JWKS}, issuers: [{OWN, JWKS}]", "auth.issuers", "stands beside issuer"),
        ("mode: oauth, issuers: [{OWN, JWKS}, {OWN, JWKS}]", "auth.issuers[1].issuer", "an issuer of this server"),
        ("mode: oauth, issuer: {OWN, JWKS, secret: {env: LONG}}", "auth.issuer.secret", "stands beside jwks_url"),
        ("mode: oauth, issuer: {OWN, JWKS, INTRO}", "auth.issuer.introspection", "stands beside jwks_url"),
        ("mode: oauth, issuer: {OWN, secret: {env: SHORT}}", "auth.issuer.secret", "is too short"),
        ("mode: oauth, issuer: {OWN, secret: {env: LONG}, algorithms: [RS256]}", "auth.issuer.algorithms", "nothing"),
        ("mode: oauth, issuer: {OWN, JWKS, algorithms: [HS256]}", "auth.issuer.algorithms[0]", "with a public key"),
        ("mode: oauth, issuer: {OWN, INTRO, key_refresh: 1h}", "auth.issuer.key_refresh", "nothing with introspection"),
        ("mode: oauth, issuers: [{OWN, INTRO}, {TWO, INTRO}]", "auth.issuers[1].introspection", "is the second"),
        (
            "mode: oauth, issuer: {OWN, JWKS, scope_claim: user_metadata.scopes}",
            "auth.issuer.scope_claim",
            "users write",
        ),
        # sessions and levels
        ("mode: oauth, session: {check: 30s}", "auth.session.check", "needs supabase.publishable_key"),
        ("mode: oauth, session: {check: 0s}", "auth.session.check", "must be between 1s and 1h"),
        ("mode: oauth, session: {check: sometimes}", "auth.session.check", "must be never, per_call or a duration"),
        ("mode: oauth, min_aal: aal3", "auth.min_aal", "must be aal1 or aal2"),
        ("mode: oauth, clients: []", "auth.clients", "must not be empty"),
        # API keys
        ("mode: api-key", "auth", "has no API keys"),
        ("mode: api-key, lookup: {function: f}", "auth.lookup", "needs supabase.secret_key"),
        ("mode: api-key, lookup: {function: 'f; drop'}", "auth.lookup.function", "name of a SQL function"),
        ("mode: api-key, keys: [{name: a, subject: b}]", "auth.keys[0]", "must have either secret or hash"),
        ("mode: api-key, keys: [{name: a, subject: b, hash: 'HASH', secret: {env: LONG}}]", "auth.keys[0]", "either"),
        ("mode: api-key, keys: [{name: a, subject: b, secret: {env: SHORT}}]", "auth.keys[0].secret", "32 random"),
        ("mode: api-key, keys: [{name: a, subject: b, secret: {env: DULL}}]", "auth.keys[0].secret", "32 random"),
        (
            "mode: api-key, keys: [{name: a, subject: b, secret: rgk_x}]",
            "auth.keys[0].secret",
            "not stand in",
        ),
        ("mode: api-key, keys: [{name: a, subject: b, hash: 'sha256:0'}]", "auth.keys[0].hash", "64 lower-case"),
        ("mode: api-key, keys: [KEY, KEY]", "auth.keys[1].name", "is the name of another key"),
        (
            "mode: api-key, keys: [{name: a, subject: b, hash: 'HASH', expires: now}]",
            "auth.keys[0].expires",
            "zone",
        ),
        (
            "mode: api-key, keys: [{name: a, subject: b, hash: 'HASH', expires: '2027-01-01T00:00:00'}]",
            "auth.keys[0].expires",
            "with its zone",
        ),
        # nobody
        ("mode: public", "auth", "needs an acknowledgement"),
        ("mode: public, acknowledge: Yes.", "auth", "needs an acknowledgement"),
    ],
)
def test_one_mistake_gives_one_message_at_its_place(judged: Judge, auth: str, path: str, phrase: str) -> None:
    words = {
        "API_KEY": "mode: api-key, keys: [KEY]",
        "PUBLIC": ACKNOWLEDGED,
        "KEY": "{name: a, subject: b, hash: 'HASH'}",
        "OWN": OWN,
        "TWO": OWN.replace("id.", "two."),
        "JWKS": JWKS,
        "INTRO": "introspection: {url: 'https://id.example.com/i', client_id: x, client_secret: {env: LONG}}",
        "HASH": HASH,
    }
    for word, meaning in words.items():
        auth = auth.replace(word, meaning)
    more = LIMITED if "mode: public" in auth else ""
    (finding,) = [it for it in judged(auth, more) if it[1] != "supabase"]
    assert finding[:2] == ("error", path)
    assert phrase in finding[2]


def test_scopes_on_a_public_server_are_an_error(judged: Judge) -> None:
    scopes = "\n    scopes: {required: [email], advertised: [email], issuable: [email]}"
    assert [it[:2] for it in judged(ACKNOWLEDGED, LIMITED + scopes) if it[1] != "supabase"] == [
        ("error", "scopes.required"),
        ("error", "scopes.advertised"),
        ("error", "scopes.issuable"),
    ]


@pytest.mark.parametrize("rule", ["scopes: [email]", "roles: [editor]"])
def test_a_rule_on_a_public_server_is_an_error(check: Check, minimal: str, rule: str) -> None:
    text = minimal.replace("auth: {mode: oauth}", f"auth: {{{ACKNOWLEDGED}}}{LIMITED}")
    text = text.replace("tools: [get_note]", f"tools: [get_note], require: {{{rule}}}")
    problems = [it for it in check(text).problems if it.path != "supabase"]
    assert {it.severity for it in problems} == {"error"}
    assert "servers.main.capabilities[0].require" in {it.path for it in problems}


def test_a_scope_that_no_key_has_is_an_error(judged: Judge) -> None:
    keys = f"mode: api-key, keys: [{{name: a, subject: b, hash: '{HASH}', scopes: [notes]}}]"
    implied = "\n    scopes: {required: ['notes:read'], implies: {notes: ['notes:read']}}"
    assert [it for it in judged(keys, implied) if it[1] != "supabase"] == []
    lacking = "\n    scopes: {required: ['notes:write']}"
    (finding,) = [it for it in judged(keys, lacking) if it[1] != "supabase"]
    assert finding == (
        "error",
        "scopes.required[0]",
        "is a scope that no key of this server has, so no call would ever pass",
    )


def test_sessions_of_other_issuers_cannot_be_asked_about(judged: Judge) -> None:
    auth = f"mode: oauth, supabase: true, issuers: [{{{OWN}, {JWKS}}}], session: {{check: 30s}}"
    assert judged(auth, project=KEYS) == [
        ("error", "auth.session.check", "cannot be answered for tokens of other issuers")
    ]


def test_a_second_factor_for_oauth_tokens_of_supabase_is_warned_about(judged: Judge) -> None:
    (finding,) = judged("mode: oauth, min_aal: aal2")
    assert finding[:2] == ("warning", "auth.min_aal")
    assert judged("mode: bearer, min_aal: aal2") == []


@pytest.mark.parametrize(
    ("project", "path"),
    [
        (", jwt_secret: {env: SHORT}", "supabase.jwt_secret"),
        (", jwt_secret: {env: LONG}, jwks_url: https://acme.supabase.co/keys", "supabase.jwks_url"),
    ],
)
def test_a_project_signs_with_keys_or_with_a_secret(judged: Judge, project: str, path: str) -> None:
    (finding,) = judged("mode: oauth", project=project)
    assert finding[:2] == ("error", path)


def test_a_project_that_only_knows_keys_is_used(judged: Judge) -> None:
    assert judged("mode: api-key, lookup: {function: rowgate_api_key}", project=KEYS) == []
    assert [it[1] for it in judged(ACKNOWLEDGED, LIMITED)] == ["supabase"]


def test_the_end_of_a_key_is_a_moment(check: Check, minimal: str) -> None:
    keys = f"keys: [{{name: a, subject: b, hash: '{HASH}', expires: '2027-01-31T01:00:00+01:00'}}]"
    config = check(minimal.replace("auth: {mode: oauth}", f"auth: {{mode: api-key, {keys}}}")).config
    assert config is not None
    assert config.servers["main"].auth.keys[0].expires == datetime(2027, 1, 31, tzinfo=UTC).timestamp()


def test_no_finding_repeats_a_secret(judged: Judge) -> None:
    found = judged("mode: api-key, keys: [{name: a, subject: b, secret: {env: SHORT}}]")
    assert SECRETS["SHORT"] not in str(found)
