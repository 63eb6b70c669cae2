"""Rewrites the reference pages; with `--check` it only says which are stale, and exits with 1 if any is."""

from __future__ import annotations

import sys

from generator.pages import PAGES


def main(arguments: list[str]) -> int:
    stale = [page for page in PAGES if page.path.read_text(encoding="utf-8") != page.text()]
    for page in stale:
        if "--check" not in arguments:
            page.path.write_text(page.text(), encoding="utf-8")
        print(f"{page.path.name}: {'stale' if '--check' in arguments else 'written'}")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
