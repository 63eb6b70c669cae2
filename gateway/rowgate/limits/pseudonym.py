"""Whose budget a counter outside the process is, without saying so."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from rowgate.limits.window import Charge

_PERSON: Final = b"rowgate limits 1"


class Pseudonyms:
    """A keyed hash of fixed length: who reads the store learns no subject and no address from it."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: the same in all replicas, or each counts for itself."""
        self._state = blake2b(key=blake2b(secret).digest(), digest_size=16, person=_PERSON)

    def of(self, charge: Charge) -> str:
        state = self._state.copy()
        for part in (charge.limit, str(charge.rate.period), *charge.identity):
            encoded = part.encode()
            # With their lengths, so that no two identities spell the same.
            state.update(b"%d:%b" % (len(encoded), encoded))
        return state.hexdigest()
