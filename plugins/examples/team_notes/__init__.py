"""An example plugin: the notes of teams, as each member may see them."""

from __future__ import annotations

from pathlib import Path

_SQL = Path(__file__).with_name("sql")

MIGRATIONS = (_SQL / "0001_team_notes.sql", _SQL / "seed.sql")
"""The schema with its policies, then two organisations to try it with."""
