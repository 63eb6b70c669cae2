"""The WWW-Authenticate header of every 401 and 403 (RFC 6750 §3, RFC 9728 §5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from rowgate.auth.metadata import Resource
from rowgate.errors import AuthenticationError, InsufficientAuthentication, InsufficientScope

# RFC 6749 §3.3 and RFC 3986; neither has a quote or a backslash.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_URL: Final = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")
# RFC 6750 §3 less the equals sign: clients search for `scope=` and the like without parsing.
_NOT_DESCRIPTION: Final = re.compile(r"[^\x20-\x21\x23-\x3c\x3e-\x5b\x5d-\x7e]+")


def challenge(
    resource_metadata_url: str | None,
    *,
    error: str | None = None,
    description: str | None = None,
    scope: Iterable[str] = (),
    acr_values: str | None = None,
) -> str:
    """What clients act on comes first and free text last: many take the first match of a regular expression.

    Characters that the header cannot carry are left out of scopes and description; a URL with any raises ValueError.
    """
    if resource_metadata_url is not None and not _URL.fullmatch(resource_metadata_url):
        raise ValueError("a metadata URL must be a plain URL")
    parameters: dict[str, str | None] = {
        "error": _described(error),
        "scope": " ".join(dict.fromkeys(name for name in scope if _SCOPE.fullmatch(name))),
        "resource_metadata": resource_metadata_url,
        "acr_values": acr_values,
        "error_description": _described(description) if error else None,
    }
    present = [f'{name}="{value}"' for name, value in parameters.items() if value]
    # RFC 6750 §3 asks for at least one parameter.
    return "Bearer " + ", ".join(present or ['realm="mcp"'])


def challenge_for(error: AuthenticationError | InsufficientScope, resource: Resource) -> dict[str, str]:
    code: str | None
    if isinstance(error, InsufficientScope):
        code, scope = "insufficient_scope", error.scopes
    else:
        code, scope = error.oauth_error, resource.scope
    level = error.level if isinstance(error, InsufficientAuthentication) else None
    value = challenge(resource.metadata_url, error=code, description=error.message, scope=scope, acr_values=level)
    return {"WWW-Authenticate": value}


def _described(text: str | None) -> str:
    return _NOT_DESCRIPTION.sub(" ", text or "").strip()
