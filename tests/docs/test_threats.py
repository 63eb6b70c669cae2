"""Whatever the threat model says is stopped, a test shows; that named tests exist is held with the other pages."""

from __future__ import annotations

import re

from markdown_pages import ROOT, read

PAGE = read(ROOT / "docs" / "explanation" / "threat-model.md")


def boundaries() -> dict[str, str]:
    """Sections that speak of attacks, by their heading."""
    _, *parts = re.split(r"^## (.+)$", PAGE.text, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    return {heading: text for heading, text in sections.items() if "| what stops it | tests |" in text}


def test_every_threat_names_a_test_that_shows_what_stops_it() -> None:
    rows = [
        line.split(" | ") for text in boundaries().values() for line in re.findall(r"^\| .+ \|$", text, re.MULTILINE)
    ]
    threats = [row for row in rows if row[-1] != "tests |" and not row[0].startswith("| ---")]
    assert len(threats) > 50
    for row in threats:
        assert len(row) == 3, row
        assert re.search(r"`test_[a-z0-9_]+`", row[-1]), row


def test_every_boundary_says_what_remains() -> None:
    assert len(boundaries()) >= 10
    assert [heading for heading, text in boundaries().items() if "**What remains.**" not in text] == []
