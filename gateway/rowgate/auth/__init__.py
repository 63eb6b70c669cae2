"""Who calls: from the Authorization header to a verified principal, or a challenge."""

from rowgate.auth.authenticator import Authenticator
from rowgate.auth.authenticators import Authenticators, authenticators

__all__ = ["Authenticator", "Authenticators", "authenticators"]
