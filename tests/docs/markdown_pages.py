"""The documentation as tests see it: every page with its blocks, headings and links."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))  # the generator is no part of any distribution

_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    language: str
    text: str


@dataclass(frozen=True)
class Document:
    path: Path
    text: str

    def __str__(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def blocks(self) -> list[Block]:
        return [
            Block(match[3], re.sub(rf"^{match[1]}", "", match[4], flags=re.MULTILINE))
            for match in _FENCE.finditer(self.text)
        ]

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def code(self) -> list[str]:
        return _CODE.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """As the forge makes them: lower case, without punctuation, blanks become hyphens, repetitions are numbered."""
        found: dict[str, int] = {}
        anchors = set()
        for heading in _HEADING.findall(self.prose):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            anchors.add(f"{slug}-{found[slug]}" if slug in found else slug)
            found[slug] = found.get(slug, 0) + 1
        return anchors


def read(path: Path) -> Document:
    return Document(path, path.read_text(encoding="utf-8"))


def documents() -> list[Document]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").rglob("*.md")]
    return [read(path) for path in sorted(pages)]
