"""The notes as their reader may see them: every query goes to Supabase with the caller's own token."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import ClassVar, Literal, Protocol, TypeVar
from uuid import UUID

import httpx
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from postgrest import APIError, APIResponse
from pydantic import BaseModel, ConfigDict, Field

from rowgate_plugin import Caller

logger = logging.getLogger(__name__)


class NotesError(ToolError, ResourceError):
    """What went wrong, in words for a model: the SDK passes them on from tools and from resources."""


class NoteNotFound(NotesError, ResourceNotFoundError):
    """The same words for a note that does not exist and for one that is not the caller's to see."""

    def __init__(self) -> None:
        super().__init__("There is no note with this id. search_notes gives the ids of notes.")


class Row(BaseModel):
    # A row that does not fit must not stand in the log.
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    columns: ClassVar[str]


class Organisation(Row):
    columns = "role, ...organisations(id, name)"

    id: UUID
    name: str
    role: Literal["owner", "editor", "viewer"] = Field(description="What the caller is there.")

    @property
    def writable(self) -> bool:
        return self.role != "viewer"


class NoteSummary(Row):
    columns = "id, title, updated_at, ...organisations(organisation:name)"

    id: UUID
    title: str
    organisation: str
    updated_at: datetime


class Note(NoteSummary):
    columns = f"{NoteSummary.columns}, body"

    body: str


R = TypeVar("R", bound=Row)
N = TypeVar("N", bound=NoteSummary)


async def search(caller: Caller, words: str, limit: int, kind: type[N]) -> list[N]:
    """The newest first; all notes when there are no words."""
    query = caller.supabase.table("notes").select(kind.columns)
    if words.strip():
        query = query.text_search("search", words, {"type": "web_search", "config": "english"})
    return await _rows(query.order("updated_at", desc=True).order("id").limit(limit), kind)


async def get(caller: Caller, id: str) -> Note:
    """Raises NoteNotFound."""
    return _one(await _rows(caller.supabase.table("notes").select(Note.columns).eq("id", _uuid(id)), Note))


async def create(caller: Caller, organisation: Organisation, title: str, body: str) -> Note:
    # The author is not ours to say: the database takes it from the token.
    row = {"organisation_id": str(organisation.id), "title": title, "body": body}
    return _one(await _rows(caller.supabase.table("notes").insert(row).select(Note.columns), Note))


async def delete(caller: Caller, id: str) -> None:
    """Raises NotesError when the caller may read the note but not delete it: the policy leaves it where it is."""
    query = caller.supabase.table("notes").delete().eq("id", _uuid(id)).select(NoteSummary.columns)
    if not await _rows(query, NoteSummary):
        raise NotesError("The note is still there: only its author or an owner of its organisation may delete it.")


async def organisations(caller: Caller) -> list[Organisation]:
    return await _rows(caller.supabase.table("memberships").select(Organisation.columns), Organisation)


async def titles(caller: Caller, part: str, limit: int) -> list[str]:
    """Titles that contain `part`, whatever the case."""
    query = caller.supabase.table("notes").select(NoteSummary.columns).ilike("title", f"%{_literal(part)}%")
    found = await _rows(query.order("updated_at", desc=True).limit(limit), NoteSummary)
    return list(dict.fromkeys(note.title for note in found))


class _Query(Protocol):
    async def execute(self) -> APIResponse: ...


async def _rows(query: _Query, kind: type[R]) -> list[R]:
    try:
        answer = await query.execute()
    except APIError as error:
        # The rest of it may hold SQL or the row, so neither the log nor the model sees more than the code.
        logger.warning("Supabase refused a query: %s", error.code)
        raise NotesError(_REFUSALS.get(error.code or "", _REFUSED)) from None
    except httpx.HTTPError as error:
        logger.warning("Supabase did not answer: %s", type(error).__name__)
        raise NotesError("The notes cannot be reached at the moment; try again later.") from None
    return [kind.model_validate(row) for row in answer.data]


_REFUSED = "The notes could not be read or changed. Check the arguments, then try again."
_REFUSALS = {
    "42501": "You are not allowed to do this.",
    "23514": "A title is one line of 1 to 200 characters, and a body has at most 20000 characters.",
    "23503": "The organisation is not there any more.",
}
"""By SQLSTATE."""


def _one(found: list[R]) -> R:
    if not found:
        raise NoteNotFound
    return found[0]


def _uuid(id: str) -> str:
    try:
        return str(UUID(id))
    except ValueError:
        raise NoteNotFound from None


def _literal(text: str) -> str:
    """As a part of a pattern. PostgREST turns every `*` into `%`, so that one becomes "any character"."""
    return re.sub(r"([\\%_])", r"\\\1", text).replace("*", "_")
