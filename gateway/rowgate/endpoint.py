"""One server of the configuration, with what was built for it at start."""

from __future__ import annotations

from dataclasses import dataclass

from rowgate.auth.admission import Admission
from rowgate.auth.authenticator import Authenticates
from rowgate.auth.metadata import Resource
from rowgate.config.models import Server
from rowgate.limits.budgets import Budgets
from rowgate.policy.authorization import Authorization
from rowgate.policy.grants import Grants
from rowgate.policy.rules import ScopePolicy
from rowgate.protocol.answers import ServerIdentity


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    config: Server
    identity: ServerIdentity
    resource: Resource
    authenticator: Authenticates
    admission: Admission | None
    """None where a verified caller is not asked for anything more."""
    scopes: ScopePolicy
    budgets: Budgets | None = None
    """None where nothing is counted."""
    grants: Grants | None = None
    """None where a token names its scopes itself."""
    authorization: Authorization | None = None
    """None where the rules leave nothing to ask."""
