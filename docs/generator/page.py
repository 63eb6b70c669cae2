"""A reference page: a head that people write, a mark, and a body that the code writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"
MARK = "<!-- Generated from the code below this line: run `make docs` instead of editing. -->"


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    body: Callable[[], str]

    @property
    def path(self) -> Path:
        return REFERENCE / self.name

    def text(self) -> str:
        """What the file should hold. Raises ValueError when the mark is missing."""
        head, mark, _ = self.path.read_text(encoding="utf-8").partition(MARK)
        if not mark:
            raise ValueError(f"{self.name} has no line that says where the generated part begins")
        return f"{head}{MARK}\n\n{self.body().strip()}\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(header), _row(["---"] * len(header)), *map(_row, rows)]
    return "\n".join(lines)


def code(text: str) -> str:
    return f"`{text}`"


def codes(words: Iterable[str]) -> str:
    return ", ".join(map(code, words))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
