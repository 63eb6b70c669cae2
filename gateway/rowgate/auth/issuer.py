"""An issuer as one server trusts it."""

from __future__ import annotations

from dataclasses import dataclass
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

    def __post_init__(self) -> None:
        if not self.issuer:
            raise ConfigurationError("An issuer has no name.")
        if not self.algorithms or not set(self.algorithms) <= ALGORITHMS.keys():
            raise ConfigurationError(f"The algorithms of {self.issuer} must be some of {', '.join(ALGORITHMS)}.")
        if not self.audiences or not all(self.audiences):
            raise ConfigurationError(f"No audience is named for {self.issuer}: any token of it would be accepted.")
        if self.roles_claim.split(".")[0] == "user_metadata":
            raise ConfigurationError("Roles cannot come from user_metadata: users write it themselves.")
        require_private_transport(self.jwks_url)

    @property
    def verification(self) -> tuple[object, ...]:
        """What signature and time depend on: servers that agree on it share keys and remembered tokens."""
        return (self.issuer, self.jwks_url, self.algorithms, self.leeway, self.refresh, self.max_stale)


def require_private_transport(url: str) -> None:
    """Raises ConfigurationError unless nobody on the way can change what the URL answers."""
    parts = urlsplit(url)
    if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))):
        return
    raise ConfigurationError("A key set must be fetched over https, or over http from loopback.")
