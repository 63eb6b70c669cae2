"""A hook in code: nothing but a plain yes is a yes, and whatever it raises is a refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rowgate.errors import HookFailed, RefusedByHook, StartError
from rowgate.extension import load
from rowgate.observe.events import Defect, Event
from rowgate.policy.capability import Capability
from rowgate.policy.hook import Denial, Hook
from rowgate.policy.rules import Requirement

from .conftest import caller

CAPABILITY = Capability("tool", "notes", "a", "a", Requirement(), {})


class Answering:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def visible(self, principal: Any, capability: Any) -> Any:
        return self._given()

    async def authorize(self, principal: Any, capability: Any, arguments: Any) -> Any:
        return self._given()

    def _given(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [1, "yes", None, [True], object(), RuntimeError("x"), KeyError("x")])
def test_only_true_shows(answer: Any) -> None:
    events: list[Event] = []
    with pytest.raises(HookFailed):
        Hook(Answering(answer), "h", emit=events.append).shows(caller(), CAPABILITY)
    assert [type(event) for event in events] == [Defect]
    assert Hook(Answering(True), "h").shows(caller(), CAPABILITY)
    assert not Hook(Answering(False), "h").shows(caller(), CAPABILITY)


@pytest.mark.parametrize("answer", [True, False, 0, "", "no", RuntimeError("x"), TimeoutError()])
async def test_only_none_lets_a_call_go_on(answer: Any) -> None:
    events: list[Event] = []
    with pytest.raises(HookFailed):
        await Hook(Answering(answer), "h", emit=events.append).authorize(caller(), CAPABILITY, {})
    assert [type(event) for event in events] == [Defect]
    await Hook(Answering(None), "h").authorize(caller(), CAPABILITY, {})


async def test_a_hook_that_does_not_answer_is_a_refusal() -> None:
    class Hanging:
        async def authorize(self, principal: Any, capability: Any, arguments: Any) -> None:
            await asyncio.Event().wait()

    with pytest.raises(HookFailed):
        await Hook(Hanging(), "h", timeout=0.01).authorize(caller(), CAPABILITY, {})


async def test_a_call_that_is_cancelled_is_no_failure_of_the_hook() -> None:
    began = asyncio.Event()

    class Hanging:
        async def authorize(self, principal: Any, capability: Any, arguments: Any) -> None:
            began.set()
            await asyncio.Event().wait()

    events: list[Event] = []
    asked = asyncio.create_task(Hook(Hanging(), "h", emit=events.append).authorize(caller(), CAPABILITY, {}))
    await began.wait()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert events == []


@pytest.mark.parametrize(
    ("code", "word"), [("OUTSIDE_HOURS", "OUTSIDE_HOURS"), ("no spaces", "FORBIDDEN"), ("", "FORBIDDEN")]
)
async def test_a_denial_speaks_for_itself(code: str, word: str) -> None:
    with pytest.raises(RefusedByHook) as refusal:
        await Hook(Answering(Denial("Not at night.", code)), "h").authorize(caller(), CAPABILITY, {})
    assert refusal.value.message == "Not at night."
    assert refusal.value.structured == {"kind": "forbidden", "code": word}


async def test_a_hook_may_have_one_of_the_two_methods_and_must_have_one() -> None:
    class OnlyVisible:
        def visible(self, principal: Any, capability: Any) -> bool:
            return False

    hook = Hook(OnlyVisible(), "h")
    assert not hook.shows(caller(), CAPABILITY)
    await hook.authorize(caller(), CAPABILITY, {})
    with pytest.raises(TypeError):
        Hook(object(), "h")


@pytest.mark.parametrize("reference", ["json:no_such", "no_such_module:x", "no-such-entry-point", "json:dumps.x"])
def test_what_cannot_be_loaded_ends_the_start(reference: str) -> None:
    with pytest.raises(StartError, match=reference.split(":")[0]):
        load(reference, "rowgate.policy")


def test_a_class_is_made_an_instance() -> None:
    assert isinstance(load("collections:OrderedDict", "rowgate.policy"), dict)


async def test_a_hook_cannot_change_what_was_validated() -> None:
    class Changing:
        async def authorize(self, principal: Any, capability: Any, arguments: Any) -> None:
            arguments["text"] = "another"
            arguments["list"].append("more")

    given = {"text": "this", "list": ["one"]}
    await Hook(Changing(), "h").authorize(caller(), CAPABILITY, given)
    assert given == {"text": "this", "list": ["one"]}
