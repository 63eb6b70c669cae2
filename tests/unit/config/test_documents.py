"""What YAML may do here, and what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowgate.config.document import Document, parse


def tree(text: str, **env: str) -> object:
    document = parse(text, env)
    assert document.problems == ()
    return document.tree


def messages(text: str, **env: str) -> list[str]:
    return [
        f"{problem.line}:{problem.column} {problem.path} {problem.message}" for problem in parse(text, env).problems
    ]


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("false", False),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'12'", "12"),
        ('"true"', "true"),
        # None of these is what it would be in YAML 1.1.
        ("off", "off"),
        ("yes", "yes"),
        ("NO", "NO"),
        ("1:30", "1:30"),
        ("010", "010"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("2026-01-01", "2026-01-01"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_only_null_booleans_and_decimal_numbers_are_not_text(scalar: str, value: object) -> None:
    result = tree(f"a: {scalar}\n")
    assert result == {"a": value}
    assert type(result["a"]) is type(value)  # type: ignore[index]


def test_a_merge_key_is_an_ordinary_key() -> None:
    assert tree("<<: {a: 1}\n") == {"<<": {"a": 1}}


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("${A}", "one"),
        ("x${A}-${B}y", "xone-twoy"),
        ("${NONE:-three}", "three"),
        ("${BLANK:-three}", "three"),
        ("${A:-three}", "one"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A", "$A"),
        ("'${A}'", "one"),
        ("${NUMBER}", "8080"),
        ("${TRICKY}", "a: [1]\nb: 2"),
        ("${RECURSIVE}", "${A}"),
        ("${NONE:-}", None),
        ("'${NONE:-}'", ""),
        ("${NONE:-http://h:1/?a=b}", "http://h:1/?a=b"),
    ],
)
def test_variables_are_replaced_in_scalars_after_parsing(scalar: str, value: object) -> None:
    env = {"A": "one", "B": "two", "BLANK": "  ", "NUMBER": "8080", "TRICKY": "a: [1]\nb: 2", "RECURSIVE": "${A}"}
    assert tree(f"key: {scalar}\n", **env) == {"key": value}


def test_keys_are_not_replaced() -> None:
    assert tree('"${A}": 1\n', A="x") == {"${A}": 1}


@pytest.mark.parametrize("scalar", ["${}", "${1A}", "${A", "${A:+x}", "${A:?x}", "${A-b}", "${ A }", "${A:-${B}"])
def test_a_reference_of_another_form_is_refused_and_not_taken_literally(scalar: str) -> None:
    if scalar == "${A:-${B}":
        assert tree(f"a: '{scalar}'") == {"a": "${B"}
    else:
        assert messages(f"a: '{scalar}'") == ["1:4 a has a ${…} that is not ${NAME} or ${NAME:-default}"]


def test_an_unset_and_a_blank_variable_are_told_apart() -> None:
    assert messages("a: ${X}\nb: ${Y}\n", Y=" ") == [
        "1:4 a needs the environment variable X, which is not set",
        "2:4 b needs the environment variable Y, which is empty",
    ]


def test_a_key_that_stands_twice_is_refused_at_its_second_place() -> None:
    assert messages("a: 1\nb: {c: 1, c: 2}\na: 3\n") == [
        "2:11 b.c stands here a second time; the first is on line 2",
        "3:1 a stands here a second time; the first is on line 1",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object/apply:os.system [id]",
        "a: !!binary aGk=",
        "a: !custom {b: 1}",
        "a: !!set {b}",
        "a: !!int '1'",
    ],
)
def test_tags_are_refused(text: str) -> None:
    assert messages(text) == ["1:4 a must not have a YAML tag"]


def test_anchors_work() -> None:
    assert tree("a: &x [1, 2]\nb: *x\n") == {"a": [1, 2], "b": [1, 2]}


def test_an_alias_that_contains_itself_is_refused() -> None:
    assert [message.split(" ", 2)[2] for message in messages("a: &x [*x]")] == ["is nested deeper than 32 levels"]


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (message,) = messages("\n".join(lines))
    assert message.endswith("holds more than 50000 values")


@pytest.mark.parametrize("text", ["[" * 20_000, "- " * 20_000, "{a: " * 5_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert len(parse(text, {}).problems) == 1


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1\nb: 2\n", (2, 2)),
        ("a: 1\n\tb: 2\n", (2, 1)),
        ("a: b: c\n", (1, 5)),
        ("a: 1\n--- \nb: 2\n", (2, 1)),
        ("a: *nowhere\n", (1, 4)),
        ("a: 1\nb: \x00\n", (2, 4)),
        ('a: "\\UFFFFFFFF"\n', (1, 1)),
        ('a: "\\ud800"\n', (1, 4)),
        ("? [a]\n: b\n", (1, 3)),
    ],
)
def test_text_that_is_not_yaml_is_reported_where_it_fails(text: str, place: tuple[int, int]) -> None:
    (problem,) = parse(text, {}).problems
    assert (problem.line, problem.column) == place


@pytest.mark.parametrize("text", ["a: *hunter2", "a: !hunter2", "hunter2: [", "a: 'x' hunter2", "%YAML hunter2\n---\n"])
def test_a_syntax_error_does_not_repeat_the_file(text: str) -> None:
    problems = parse(text, {}).problems
    assert problems
    assert "hunter2" not in str([problem.render("f") for problem in problems])


@settings(deadline=None)
@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert isinstance(parse(text, {}), Document)


@settings(deadline=None)
@given(st.text(alphabet="ab:- \n[]{},&*!'\"|>%#?\\${}~\t", max_size=60))
def test_no_text_of_yaml_characters_raises(text: str) -> None:
    assert isinstance(parse(text, {"a": "b"}), Document)
