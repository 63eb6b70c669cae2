"""The keys that a plugin trusts for contexts, and where they come from."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet, OctKey

from rowgate_plugin.contract import MIN_SECRET_BYTES, check_key, secret_key
from rowgate_plugin.settings import SettingsError

JWKS = "ROWGATE_CONTEXT_JWKS"
JWKS_FILE = "ROWGATE_CONTEXT_JWKS_FILE"
JWKS_URL = "ROWGATE_CONTEXT_JWKS_URL"
SECRET = "ROWGATE_CONTEXT_SECRET"
SOURCES = (JWKS, JWKS_FILE, JWKS_URL, SECRET)

MAX_DOCUMENT_BYTES = 64 * 1024
FETCH_TIMEOUT = 3.0
_KEY_TYPES = frozenset({"OKP", "oct"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

logger = logging.getLogger(__name__)

Source = Callable[[], Awaitable[KeySet]]
"""Reads the key set anew; raises when it cannot."""


class ContextKeys:
    """The trusted key set. With a source it follows rotation: one flight at a time, at most one in `cooldown` seconds.

    The last good set is kept while the source fails, for at most `max_stale` seconds.
    """

    def __init__(
        self,
        keys: KeySet,
        source: Source | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        cooldown: float = 5.0,
        max_age: float = 600.0,
        max_stale: float = 86_400.0,
    ) -> None:
        self._keys = keys
        self._source = source
        self._clock = clock
        self._cooldown = cooldown
        self._max_age = max_age
        self._max_stale = max_stale
        self._loaded_at = clock()
        self._tried_at = float("-inf")
        self._flight: asyncio.Task[bool] | None = None

    def current(self) -> KeySet:
        if self._source is not None and self._age() > self._max_stale:
            return KeySet([])
        return self._keys

    async def freshen(self) -> None:
        """Start a reload when the set has aged; wait for it only while there is nothing to verify with."""
        if self._source is None:
            return
        if not self.current():
            await self.reload()
        elif self._age() > self._max_age:
            self._take_off()

    async def reload(self) -> bool:
        """Whether a set was read just now. Within the cool-down nothing is read and the answer is False."""
        flight = self._take_off()
        # One request that goes away must not take the flight from the others.
        return await asyncio.shield(flight) if flight is not None else False

    def _take_off(self) -> asyncio.Task[bool] | None:
        if self._flight is not None and not self._flight.done():
            return self._flight
        if self._source is None or self._clock() - self._tried_at < self._cooldown:
            return None
        self._tried_at = self._clock()
        self._flight = asyncio.get_running_loop().create_task(self._load(self._source))
        return self._flight

    async def _load(self, source: Source) -> bool:
        try:
            self._keys = await source()
        except Exception as error:
            logger.warning("the context keys could not be read: %s", describe(error))
            return False
        self._loaded_at = self._clock()
        return True

    def _age(self) -> float:
        return self._clock() - self._loaded_at


def keys_from_environment(environ: Mapping[str, str]) -> ContextKeys:
    """`SettingsError` unless exactly one of `SOURCES` is set and good for its purpose."""
    named = [name for name in SOURCES if name in environ]
    if not named:
        raise SettingsError(f"no key to verify the gateway's contexts with: set one of {', '.join(SOURCES)}")
    if len(named) > 1:
        raise SettingsError(f"{' and '.join(named)} are set: which of them to trust is for one alone to say")
    name = named[0]
    value = environ[name].strip()
    if not value:
        raise SettingsError(f"{name} is empty")
    if name == SECRET:
        return ContextKeys(KeySet([_secret(value)]))
    if name == JWKS:
        return ContextKeys(read_jwks(value, origin=name))
    return _from_file(Path(value)) if name == JWKS_FILE else _from_url(value)


def read_jwks(text: str | bytes, *, origin: str, symmetric: bool = True) -> KeySet:
    """The keys of a JWK Set or of one JWK; `SettingsError` names `origin` and what is wrong, never a key."""
    try:
        document = json.loads(text)
    except ValueError:
        raise SettingsError(f"{origin} is not JSON") from None
    entries = document.get("keys", [document]) if isinstance(document, dict) else None
    if isinstance(entries, list):
        # RFC 7517 §5: a kind of key that we do not know is not ours to judge.
        entries = [entry for entry in entries if not isinstance(entry, dict) or entry.get("kty") in _KEY_TYPES]
    if not isinstance(entries, list) or not entries:
        raise SettingsError(f"{origin} holds no key: give a JWK Set with the gateway's public keys")
    return KeySet([_read_key(entry, origin, symmetric) for entry in entries])


def _read_key(entry: Any, origin: str, symmetric: bool) -> Key:
    try:
        key = JWKRegistry.import_key(entry)
        check_key(key)
    except (JoseError, ValueError, TypeError, AttributeError, KeyError):
        raise SettingsError(
            f"{origin} holds a key that cannot verify contexts: OKP on Ed25519, or oct of {MIN_SECRET_BYTES} bytes"
        ) from None
    if isinstance(key, OctKey):
        if not symmetric:
            raise SettingsError(f"{origin} publishes a secret key: an HS256 secret belongs into {SECRET}")
    elif key.is_private:
        raise SettingsError(f"{origin} holds the gateway's private key: a plugin needs only the public part")
    return key


def _secret(value: str) -> OctKey:
    try:
        return secret_key(value)
    except ValueError:
        raise SettingsError(f"{SECRET} needs at least {MIN_SECRET_BYTES} bytes, and is no public key") from None


def _from_file(path: Path) -> ContextKeys:
    def read() -> KeySet:
        try:
            return read_jwks(path.read_bytes(), origin=JWKS_FILE)
        except OSError as error:
            raise SettingsError(f"{JWKS_FILE} cannot be read: {error.strerror}") from None

    async def reread() -> KeySet:
        return await asyncio.to_thread(read)

    return ContextKeys(read(), reread)


def _from_url(url: str) -> ContextKeys:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise SettingsError(f"{JWKS_URL} is not an http(s) URL without credentials")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        logger.warning(
            "%s is clear HTTP: whoever controls that network can sign contexts; %s pins the keys", JWKS_URL, JWKS_FILE
        )

    async def fetch() -> KeySet:
        return read_jwks(await _download(url), origin=JWKS_URL, symmetric=False)

    # The gateway may start after the plugin, so the first request reads the set; until then every context is refused.
    return ContextKeys(KeySet([]), fetch)


async def _download(url: str) -> bytes:
    import httpx2

    received = bytearray()
    async with (
        httpx2.AsyncClient(follow_redirects=False, trust_env=False, timeout=FETCH_TIMEOUT) as client,
        client.stream("GET", url, headers={"Accept": "application/json"}) as response,
    ):
        if response.status_code != 200:
            raise SettingsError(f"{JWKS_URL} answered {response.status_code}")
        async for chunk in response.aiter_bytes():
            received += chunk
            if len(received) > MAX_DOCUMENT_BYTES:
                raise SettingsError(f"{JWKS_URL} answered more than {MAX_DOCUMENT_BYTES} bytes")
    return bytes(received)


def describe(error: Exception) -> str:
    """Our own words, or only the kind of somebody else's error."""
    return str(error) if isinstance(error, SettingsError) else type(error).__name__
