"""What three processes say about a day's work names who did what, and nothing of what was said."""

from __future__ import annotations

from databases import SupabaseProject
from flow.client import Client
from rls.chain import chain
from rls.person import OPERATIONS, Person, Wire


async def test_no_log_holds_a_token_a_question_or_a_row(
    team_notes_project: SupabaseProject, client: Client, alice: Person
) -> None:
    async with chain(team_notes_project.hosted) as running:
        for url in running.replicas:
            alices = Wire(client, url, "2026-07-28", alice.token)
            for operation in OPERATIONS:
                assert alice.owns(await operation(alices, alice))
            assert (await alices.call("search_notes", query="xylophone")).status == 200
            title = "two\nlines about a zeppelin"
            assert (await alices.call("create_note", title=title, body="quokka")).result["isError"] is True
            assert (await alices.call("search_notes", query=["xylophone"])).result["isError"] is True
    # Stopped and read to the end.
    plugin, *gateways = [process.output for process in running.processes]
    for output in gateways:
        assert '"search_notes"' in output
    assert "Supabase refused a query: 23514" in plugin
    for output in (plugin, *gateways):
        for secret in (*alice.token.split("."), "xylophone", "zeppelin", "quokka", "Rocket", "skates", "eyJ"):
            assert secret not in output, secret
