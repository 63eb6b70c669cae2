"""What a model and its user can do with the notes of their teams."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    PromptReference,
    ResourceTemplateReference,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field

from rowgate_plugin import Caller, CurrentCaller, with_caller
from team_notes import notes
from team_notes.notes import Note, NoteSummary, Organisation

server = MCPServer("team-notes", title="Team notes")

READ = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADD = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
DELETE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

NoteId = Annotated[str, Field(description="The id of a note, as search_notes gives it.")]


class Notes(BaseModel):
    notes: list[NoteSummary]
    more: bool = Field(description="Whether there are more of them than were asked for.")


@server.tool(title="Search notes", annotations=READ)
async def search_notes(
    caller: CurrentCaller,
    query: Annotated[str, Field(max_length=200, description="Words, or nothing for the newest notes.")],
    limit: Annotated[int, Field(ge=1, le=50)] = 20,
) -> Notes:
    """Find notes of the user's teams that contain all of the words. get_note reads one of them."""
    found = await notes.search(caller, query, limit + 1, NoteSummary)
    return Notes(notes=found[:limit], more=len(found) > limit)


@server.tool(title="Read a note", annotations=READ)
async def get_note(caller: CurrentCaller, id: NoteId) -> Note:
    """Read one note."""
    return await notes.get(caller, id)


@server.tool(title="Write a note", annotations=ADD)
async def create_note(
    caller: CurrentCaller,
    title: Annotated[str, Field(min_length=1, max_length=200, description="One line.")],
    body: Annotated[str, Field(max_length=20_000, description="Markdown.")],
    organisation: Annotated[
        str | None, Field(description="Name or id. Needed only by users who write for more than one.")
    ] = None,
) -> Note:
    """Write a note for the user's team."""
    return await notes.create(caller, await _organisation(caller, organisation), title, body)


async def _organisation(caller: Caller, wanted: str | None) -> Organisation:
    own = [one for one in await notes.organisations(caller) if one.writable]
    fitting = [one for one in own if wanted is None or wanted in (one.name, str(one.id))]
    if len(fitting) == 1:
        return fitting[0]
    if not own:
        raise ToolError("The user may not write notes in any organisation.")
    raise ToolError("Say for which organisation: " + ", ".join(f"{one.name} ({one.id})" for one in own))


class Confirmation(BaseModel):
    delete: bool = Field(title="Delete the note", description="It cannot be brought back.")


class Deletion(BaseModel):
    deleted: bool
    message: str


async def confirmation(
    ctx: Context, caller: CurrentCaller, id: str, confirm: bool
) -> Elicit[Confirmation] | Confirmation:
    """Asks the user. A client that can show the question has no other way around it."""
    note = await notes.get(caller, id)
    if _asks_its_user(ctx):
        return Elicit(f"Delete the note “{note.title}” of {note.organisation}?", Confirmation)
    if not confirm:
        raise ToolError(
            f"This client cannot show the question, so ask the user yourself whether to delete “{note.title}”. "
            "If they agree, call delete_note again with confirm=true."
        )
    return Confirmation(delete=True)


def _asks_its_user(ctx: Context) -> bool:
    capabilities = ctx.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    # Without any mode in it, it means forms.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


@server.tool(title="Delete a note", annotations=DELETE)
async def delete_note(
    caller: CurrentCaller,
    id: NoteId,
    answer: Annotated[ElicitationResult[Confirmation], Resolve(confirmation)],
    confirm: Annotated[
        bool, Field(description="Only for clients that cannot ask their user: true when the user agreed.")
    ] = False,
) -> Deletion:
    """Delete a note for good, once the user agreed."""
    if not (isinstance(answer, AcceptedElicitation) and answer.data.delete):
        return Deletion(deleted=False, message="The user does not want it deleted. The note was kept.")
    await notes.delete(caller, id)
    return Deletion(deleted=True, message="The note was deleted.")


@server.resource("notes://organisations", title="My organisations", mime_type="application/json")
@with_caller
async def organisations(caller: CurrentCaller) -> list[Organisation]:
    """The organisations whose notes the user may read, and what they may do there."""
    return await notes.organisations(caller)


@server.resource("notes://{id}", title="Note", mime_type="text/markdown")
@with_caller
async def note(id: str, caller: CurrentCaller) -> str:
    """One note as Markdown."""
    return _markdown(await notes.get(caller, id))


@server.prompt(title="Summarise notes")
@with_caller
async def summarise_notes(
    topic: Annotated[str, Field(description="Words that the notes contain.")], caller: CurrentCaller
) -> list[UserMessage]:
    """Summarise what the notes of the user's teams say about a topic."""
    found = await notes.search(caller, topic[:200], 20, Note)
    if not found:
        return [UserMessage(f"Tell me that there are no notes about “{topic}”.")]
    task = f"Summarise what these notes say about “{topic}”. Name the note that each point comes from."
    return [UserMessage(task), *(UserMessage(_embedded(one)) for one in found)]


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
@with_caller
async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
    caller: CurrentCaller,
) -> Completion | None:
    if not isinstance(ref, PromptReference) or (ref.name, argument.name) != ("summarise_notes", "topic"):
        return None
    return Completion(values=await notes.titles(caller, argument.value[:200], 20))


def _embedded(one: Note) -> EmbeddedResource:
    contents = TextResourceContents(uri=f"notes://{one.id}", mime_type="text/markdown", text=_markdown(one))
    return EmbeddedResource(type="resource", resource=contents)


def _markdown(one: Note) -> str:
    return f"# {one.title}\n\n{one.body}\n"
