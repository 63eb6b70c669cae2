"""Mode public: nobody signs in, and whatever credential a client sends is neither read nor passed on."""

from __future__ import annotations

from typing import Final

from multidict import MultiMapping

from rowgate.auth.principal import Principal

PUBLIC: Final = Principal(kind="public", subject="", issuer="public")


class PublicAuthenticator:
    async def authenticate(self, headers: MultiMapping[str]) -> Principal:
        return PUBLIC
