"""Who calls: from the Authorization header to a verified principal, or a challenge."""

from rowgate.auth.authenticator import Authenticator, Authenticators, authenticators

__all__ = ["Authenticator", "Authenticators", "authenticators"]
