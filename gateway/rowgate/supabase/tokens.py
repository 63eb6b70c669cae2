"""What is known of the tokens and API keys of a Supabase project, without asking it."""

from __future__ import annotations

from typing import Final

API_KEY_PREFIXES: Final = ("sb_publishable_", "sb_secret_")
"""An API key is no user token, though people paste it where one belongs."""

KEY_ROLES: Final = frozenset({"anon", "service_role"})
"""The `role` of the legacy API keys, which are JWTs. `service_role` bypasses Row Level Security."""

USER_ROLE: Final = "authenticated"
USER_AUDIENCE: Final = "authenticated"

SIGNING_ALGORITHMS: Final = ("ES256", "RS256")
"""What a project with asymmetric keys signs with. A project on the legacy HS256 secret publishes no key."""

ISSUABLE_SCOPES: Final = frozenset({"openid", "profile", "email", "phone", "offline_access"})
"""The authorization server refuses every other scope, so nothing else may be challenged for."""

ADVERTISED_SCOPES: Final = ("email",)
"""Clients request whatever is advertised. `openid` would add an ID token, which Supabase Auth takes as a bearer."""
