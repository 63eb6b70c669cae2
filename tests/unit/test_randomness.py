from __future__ import annotations

import os

from rowgate.randomness import Randomness


def test_every_identifier_is_fresh_and_used_once() -> None:
    asked: list[int] = []

    def source(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    mint = Randomness(source)
    minted = [mint() for _ in range(600)]
    assert len(set(minted)) == 600
    assert {len(bytes.fromhex(identifier)) for identifier in minted} == {16}
    assert sum(asked) >= 600 * 16, "each holds 128 bits of its own"


def test_nothing_is_fetched_before_it_is_needed() -> None:
    def source(size: int) -> bytes:
        raise AssertionError(size)

    Randomness(source)
