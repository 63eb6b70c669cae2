"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import team_notes
from databases import SupabaseProject
from rowgate.config.load import check_text
from rowgate.demo.project import ALICE, BOB
from rowgate_plugin.contract import JWKS_PATH
from rowgate_plugin.supabase import Project

README = Path(team_notes.__file__).with_name("README.md").read_text()


def block(language: str) -> str:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", README, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    indent, text = found[0]
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))


def test_the_configuration_is_valid_and_exposes_everything() -> None:
    checked = check_text(block("yaml"), {"SUPABASE_URL": "https://example.supabase.co"}, Path())
    assert checked.config is not None, checked.problems
    assert [problem for problem in checked.problems if problem.path != "gateway.context.signing_key"] == []
    internal = checked.config.gateway.internal_listen
    assert f"ROWGATE_CONTEXT_JWKS_URL=http://{internal.host}:{internal.port}{JWKS_PATH}" in README


async def test_the_example_of_a_test_passes(team_notes_project: SupabaseProject) -> None:
    example: dict[str, Any] = {}
    exec(compile(block("python"), "README.md", "exec"), example)
    project = Project(team_notes_project.url, team_notes_project.publishable_key)
    users = [(user.user_id, await team_notes_project.access_token(user.email)) for user in (ALICE, BOB)]
    await example["test_each_user_finds_the_own_roadmap"](project, *users)
