"""Sessions and the refresh tokens that keep them alive."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from rowgate.demo.auth.answers import AuthError, OAuthError

REUSE_INTERVAL = 10.0
"""Seconds in which a refresh token that was just used may come again."""

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def identifier(length: int) -> str:
    """A random lower-case string, five bits a character."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


@dataclass(slots=True)
class Session:
    user_id: str
    method: str
    """How it began; the `amr` of its tokens."""
    created_at: float
    client_id: str | None = None
    scope: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


@dataclass(slots=True)
class RefreshToken:
    session_id: str
    parent: str | None = field(repr=False)
    updated_at: float
    token: str = field(default_factory=lambda: identifier(12), repr=False)
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Refreshed:
    session: Session
    token: str = field(repr=False)
    reused: bool


class Sessions:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._tokens: dict[str, RefreshToken] = {}

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def begin(self, session: Session) -> str:
        """Keep the session and return its first refresh token."""
        self._sessions[session.id] = session
        return self._issue(session, None)

    def end(self, wanted: Callable[[Session], bool]) -> None:
        ended = {session.id for session in self._sessions.values() if wanted(session)}
        self._sessions = {name: session for name, session in self._sessions.items() if name not in ended}
        self._tokens = {name: token for name, token in self._tokens.items() if token.session_id not in ended}

    def find(self, token: str) -> Session:
        """Raises AuthError for a refresh token that was never issued or whose session ended."""
        known = self._tokens.get(token)
        if known is None:
            raise AuthError(400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found")
        return self._sessions[known.session_id]

    def refresh(self, token: str, client_id: str | None) -> Refreshed:
        """Rotate. A token used before gives its successor again while that is unused, or for a short interval;
        after that it revokes every token of the session."""
        session = self.find(token)
        _require_client(session, client_id)
        presented = self._tokens[token]
        if not presented.revoked:
            return Refreshed(session, self._swap(session, presented), reused=False)
        active = next((one for one in self._tokens.values() if self._active(one, session)), None)
        if active is not None and active.parent == token:
            return Refreshed(session, active.token, reused=True)
        if self._clock() > presented.updated_at + REUSE_INTERVAL:
            self._revoke_all(session)
            raise AuthError(400, "refresh_token_already_used", "Invalid Refresh Token: Already Used")
        return Refreshed(session, self._swap(session, presented), reused=False)

    @staticmethod
    def _active(token: RefreshToken, session: Session) -> bool:
        return token.session_id == session.id and not token.revoked

    def _swap(self, session: Session, old: RefreshToken) -> str:
        if not old.revoked:
            old.revoked, old.updated_at = True, self._clock()
        return self._issue(session, old.token)

    def _revoke_all(self, session: Session) -> None:
        for token in self._tokens.values():
            if self._active(token, session):
                token.revoked, token.updated_at = True, self._clock()

    def _issue(self, session: Session, parent: str | None) -> str:
        issued = RefreshToken(session.id, parent, self._clock())
        self._tokens[issued.token] = issued
        return issued.token


def _require_client(session: Session, client_id: str | None) -> None:
    """A session belongs to the client that began it, or to none."""
    names = {"sb-auth-user-id": session.user_id, "sb-auth-session-id": session.id}
    if session.client_id is not None and client_id is None:
        raise OAuthError("invalid_client", "Client authentication required for OAuth session", names)
    if session.client_id is None and client_id is not None:
        raise OAuthError("invalid_client", "Client authentication not allowed for non-OAuth session", names)
    if session.client_id != client_id:
        raise OAuthError("invalid_client", "Client does not match the session's OAuth client", names)
