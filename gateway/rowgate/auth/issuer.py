"""An issuer as one server trusts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from rowgate.config.values import is_loopback
from rowgate.errors import ConfigurationError

ALGORITHMS: Final = MappingProxyType(
    {
        "ES256": ("EC", "P-256"),
        "ES384": ("EC", "P-384"),
        "ES512": ("EC", "P-521"),
        "RS256": ("RSA", None),
        "RS384": ("RSA", None),
        "RS512": ("RSA", None),
        "PS256": ("RSA", None),
        "PS384": ("RSA", None),
        "PS512": ("RSA", None),
        "EdDSA": ("OKP", "Ed25519"),
        "Ed25519": ("OKP", "Ed25519"),
    }
)
"""Algorithm to the key type and curve that it takes. Only asymmetric ones: no published key can be a MAC secret."""

MIN_SECRET_BYTES: Final = 32
"""RFC 7518 §3.2: a key for HS256 has at least the size of its hash."""


@dataclass(frozen=True, slots=True)
class IntrospectionEndpoint:
    """Whom to ask about opaque tokens (RFC 7662), and as whom."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    in_header: bool = True
    """Whether name and secret go into Authorization rather than into the body."""
    remembered: float = 30.0
    """Seconds for which an active token is not asked about again."""
    refusals_remembered: float = 10.0


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """Raises ConfigurationError when it would trust more than anyone can mean."""

    issuer: str
    """Compared with `iss` as a string: nothing is normalised."""
    jwks_url: str
    algorithms: tuple[str, ...]
    audiences: tuple[str, ...]
    """A token for any of these is for this server."""
    resource: str = ""
    """The URL of this server, which a token bound to it names as an audience (RFC 8707)."""
    other_resources: frozenset[str] = frozenset()
    """Those of the gateway's other servers: a token bound to one of them does not open this one, whatever else it
    names."""
    token_roles: tuple[str, ...] | None = None
    """Accepted values of the `role` claim; None when the issuer's tokens have none."""
    roles_claim: str = "app_metadata.roles"
    """Dotted path, or the exact name of a top-level claim."""
    leeway: float = 30.0
    """Seconds of clock difference that `exp` and `nbf` allow."""
    require_client: bool = True
    anonymous_users: bool = False
    refresh: float = 600.0
    """Seconds after which the key set is fetched again."""
    max_stale: float = 86_400.0
    """Seconds for which a failing source keeps the last good set."""
    secret: bytes = field(default=b"", repr=False)
    """Of an issuer that signs with HS256: it publishes no keys, and no published key can then be its MAC secret."""
    introspection: IntrospectionEndpoint | None = None
    scope_claim: str | None = None
    """Path of the claim with the scopes; None for `scope`, else `scp`."""

    def __post_init__(self) -> None:
        if not self.issuer:
            raise ConfigurationError("An issuer has no name.")
        if not self.audiences or not all(self.audiences):
            raise ConfigurationError(f"No audience is named for {self.issuer}: any token of it would be accepted.")
        if self.roles_claim.split(".")[0] == "user_metadata":
            raise ConfigurationError("Roles cannot come from user_metadata: users write it themselves.")
        self._check_source()

    def _check_source(self) -> None:
        if sum((bool(self.jwks_url), bool(self.secret), self.introspection is not None)) != 1:
            raise ConfigurationError(f"{self.issuer} needs one of a key set, a secret and introspection.")
        if self.introspection is not None:
            require_private_transport(self.introspection.url)
        elif self.secret:
            if self.algorithms != ("HS256",):
                raise ConfigurationError(f"A shared secret of {self.issuer} is for HS256 and nothing else.")
            if len(self.secret) < MIN_SECRET_BYTES:
                raise ConfigurationError(f"The secret of {self.issuer} must have at least {MIN_SECRET_BYTES} bytes.")
        else:
            if not self.algorithms or not set(self.algorithms) <= ALGORITHMS.keys():
                raise ConfigurationError(f"The algorithms of {self.issuer} must be some of {', '.join(ALGORITHMS)}.")
            require_private_transport(self.jwks_url)

    @property
    def verification(self) -> tuple[object, ...]:
        """What signature and time depend on: servers that agree on it share keys and remembered tokens."""
        return (
            *(self.issuer, self.jwks_url, self.secret, self.introspection, self.algorithms),
            *(self.scope_claim, self.leeway, self.refresh, self.max_stale),
        )


def require_private_transport(url: str) -> None:
    """Raises ConfigurationError unless nobody on the way can change what the URL answers."""
    parts = urlsplit(url)
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))):
        return
    raise ConfigurationError("Keys and tokens must be asked about over https, or over http on loopback.")
