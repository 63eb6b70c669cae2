"""Rates, stores of counters, and limits that would do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from rowgate.config.limits import Rate
from rowgate.config.load import Checked
from rowgate.config.models import Config

Check = Callable[..., Checked]

PUBLIC = {"mode": "public", "acknowledge": "Anyone can call this server without signing in."}


@pytest.fixture
def changed(check: Check, minimal: str) -> Callable[..., Checked]:
    """The minimal file with some sections set, by dotted path."""

    def changed(settings: dict[str, Any], **env: str) -> Checked:
        tree = yaml.safe_load(minimal)
        for path, value in settings.items():
            *above, last = path.split(".")
            at = tree
            for step in above:
                at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
            at[last] = value
        return check(yaml.safe_dump(tree, sort_keys=False), **env)

    return changed


def found(checked: Checked) -> list[tuple[str, str, str]]:
    """But for the project, which a public server does not use."""
    return [(it.severity, it.path, it.message) for it in checked.problems if it.path != "supabase"]


def valid(checked: Checked) -> Config:
    assert checked.config is not None, checked.problems
    return checked.config


def test_without_limits_nothing_is_limited(check: Check, minimal: str) -> None:
    config = valid(check(minimal))
    limits = config.servers["main"].limits
    assert config.gateway.limits_store.kind == "memory"
    assert config.gateway.limits.failed_authentications is None
    assert not any(getattr(limits, name) for name in type(limits).model_fields)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("60/minute", Rate(60, 60)),
        ("5/second", Rate(5, 1)),
        ("5 per second", Rate(5, 1)),
        ("100/2 hours", Rate(100, 7200)),
        ("1/day", Rate(1, 86400)),
        ("none", None),
    ],
)
def test_a_rate_is_written_in_the_grammar_of_the_library(changed: Any, text: str, rate: Rate | None) -> None:
    assert valid(changed({"servers.main.limits.address": text})).servers["main"].limits.address == rate


@pytest.mark.parametrize(
    "text",
    [
        *("60", 60, "60/min", "60/month", "0/minute", "-1/minute", "1e3/minute", "60/minute;5/second", "60 / minute "),
        *("1/3000 days", "9999999/minute", "６０/minute", "unlimited", "", None, True, ["60/minute"]),
    ],
)
def test_what_is_no_rate_is_refused_and_never_means_no_limit(changed: Any, text: object) -> None:
    checked = changed({"servers.main.limits.address": text})
    assert checked.config is None
    (problem,) = checked.problems
    assert problem.path == "servers.main.limits.address"
    assert problem.message.startswith(("must be a rate", "is empty"))


@pytest.mark.parametrize("rate", ["60/minute", "5/second", "100/2 hours", "7/day", "90/90 minutes", "1/61 seconds"])
def test_a_rate_is_printed_as_it_can_be_read(changed: Any, rate: str) -> None:
    once = valid(changed({"servers.main.limits.address": rate})).servers["main"].limits.address
    assert once is not None
    assert valid(changed({"servers.main.limits.address": str(once)})).servers["main"].limits.address == once


def test_lists_and_reads_have_as_many_as_calls_unless_they_say_otherwise(changed: Any) -> None:
    limits = valid(changed({"servers.main.limits": {"subject": "9/minute", "reads": "none"}})).servers["main"].limits
    assert (limits.subject, limits.lists, limits.reads) == (Rate(9, 60), Rate(9, 60), None)


@pytest.mark.parametrize("count", [0, -1, 1.5, "many", None, True, 1_000_001])
@pytest.mark.parametrize("path", ["plugins.notes.concurrency", "servers.main.limits.streams"])
def test_a_number_of_places_is_a_whole_number_from_one(changed: Any, path: str, count: object) -> None:
    checked = changed({path: count})
    assert checked.config is None
    assert [problem.path for problem in checked.problems] == [path]


# --- the store ---------------------------------------------------------------------------------------------

LIMITED = {"servers.main.limits.address": "60/minute"}


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory", "memory"),
        ("redis://redis:6379/0", "redis"),
        ("rediss://redis.example.com:6380", "redis"),
        ("postgresql://rowgate_limits@db.example.com:5432/postgres", "postgresql"),
    ],
)
def test_a_store_is_memory_or_a_url(changed: Any, url: str, kind: str) -> None:
    store = valid(changed({"gateway.limits_store": url, **LIMITED})).gateway.limits_store
    assert store.kind == kind
    assert store.url == ("" if kind == "memory" else url)


@pytest.mark.parametrize(
    "url", ["redis", "memcached://h", "http://redis:6379", "redis:// h", "redis://h:port", "", 6379]
)
def test_what_is_no_store_is_refused(changed: Any, url: object) -> None:
    checked = changed({"gateway.limits_store": url, **LIMITED})
    assert checked.config is None
    assert {problem.path for problem in checked.problems} == {"gateway.limits_store"}


@pytest.mark.parametrize(
    "url", ["redis://:hunter2@redis:6379", "postgresql://u:hunter2@db/x", "postgresql://u@db/x?password=hunter2"]
)
def test_a_password_stands_in_no_file_and_in_no_message(changed: Any, url: str) -> None:
    checked = changed({"gateway.limits_store": url, **LIMITED})
    assert found(checked) == [("error", "gateway.limits_store", "must not hold a password")]
    assert "hunter2" not in repr(checked)


def test_a_url_with_a_password_is_a_secret_and_is_never_shown(changed: Any) -> None:
    url = "rediss://:hunter2@redis.example.com:6380/0"
    checked = changed({"gateway.limits_store": {"env": "STORE"}, **LIMITED}, STORE=url)
    config = valid(checked)
    assert config.gateway.limits_store.url == url
    assert "hunter2" not in repr(config)
    assert "hunter2" not in config.model_dump_json()
    assert config.model_dump(mode="json")["gateway"]["limits_store"] == {"env": "STORE"}


def test_a_store_that_nothing_needs_is_refused(changed: Any) -> None:
    assert found(changed({"gateway.limits_store": "redis://redis"})) == [
        ("error", "gateway.limits_store", "is not used: nothing is limited")
    ]


def test_a_shared_store_of_a_gateway_that_can_only_run_alone_is_a_warning(changed: Any) -> None:
    checked = changed({"gateway.limits_store": "redis://redis", **LIMITED})
    assert found(checked) == [
        ("warning", "gateway.limits_store", "is shared, but this gateway can only run alone"),
    ]


@pytest.mark.parametrize(("name", "value"), [("on_store_error", "closed"), ("store_timeout", "1s")])
def test_what_a_failing_store_does_is_not_said_of_memory(changed: Any, name: str, value: str) -> None:
    assert found(changed({f"gateway.limits.{name}": value, **LIMITED})) == [
        ("error", f"gateway.limits.{name}", "does nothing: memory does not fail")
    ]


# --- limits that would do nothing --------------------------------------------------------------------------


def test_a_public_server_must_limit_addresses(changed: Any) -> None:
    assert ("error", "servers.main", "is public and sets no limit") in found(changed({"servers.main.auth": PUBLIC}))
    assert found(changed({"servers.main.auth": PUBLIC, **LIMITED})) == []


@pytest.mark.parametrize(("name", "value"), [("subject", "1/minute"), ("concurrency", 3), ("streams", 3)])
def test_a_public_server_has_no_callers_to_limit(changed: Any, name: str, value: object) -> None:
    limits = {"address": "60/minute", name: value}
    checked = changed({"servers.main.auth": PUBLIC, "servers.main.limits": limits})
    message = "does nothing on a public server, which knows no callers"
    assert found(checked) == [("error", f"servers.main.limits.{name}", message)]


def test_failures_are_not_counted_where_nobody_signs_in(changed: Any) -> None:
    settings = {"servers.main.auth": PUBLIC, "gateway.limits.failed_authentications": "5/minute", **LIMITED}
    assert found(changed(settings)) == [
        ("error", "gateway.limits.failed_authentications", "does nothing: nobody signs in at any server")
    ]


@pytest.mark.parametrize(
    ("subject", "entry", "message"),
    [
        ("none", {"tools": ["get_note"]}, "does nothing without limits.subject"),
        ("4/minute", {"tools": ["get_note"]}, "is more than limits.subject ever has, so no call would pass"),
        ("9/minute", {"prompts": ["get_note"]}, "does nothing: only calls of tools have a cost"),
    ],
)
def test_a_cost_that_nothing_bears_is_refused(changed: Any, subject: str, entry: Any, message: str) -> None:
    capabilities = [{"from": "notes", **entry, "limits": {"cost": 5}}]
    checked = changed({"servers.main.limits.subject": subject, "servers.main.capabilities": capabilities})
    assert found(checked) == [("error", "servers.main.capabilities[0].limits.cost", message)]


def test_a_concurrency_that_connections_bound_before_is_a_warning(changed: Any) -> None:
    checked = changed({"plugins.notes.concurrency": 101})
    message = "is more than max_connections, which makes calls wait before they are refused"
    assert found(checked) == [("warning", "plugins.notes.concurrency", message)]
