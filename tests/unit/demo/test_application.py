"""The consent page's files; what it does is shown in a browser elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from rowgate.demo import application

HERE = Path(application.__file__).parent


def test_the_page_runs_and_styles_nothing_inline() -> None:
    page = (HERE / "consent.html").read_text()
    assert not re.search(r"\son\w+\s*=|\sstyle\s*=|<style", page)
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    assert "'unsafe-inline'" not in application.HEADERS["Content-Security-Policy"]


def test_what_a_client_says_of_itself_is_never_markup() -> None:
    script = (HERE / "consent.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_the_page_loads_from_its_own_origin_only() -> None:
    for name in ("consent.html", "consent.css", "consent.js"):
        assert not re.search(r"https?://|//[a-z]", (HERE / name).read_text()), name


def test_every_element_that_the_script_names_exists() -> None:
    script, page = (HERE / "consent.js").read_text(), (HERE / "consent.html").read_text()
    named = set(re.findall(r'element\("([\w-]+)"\)', script))
    assert named <= set(re.findall(r'id="([\w-]+)"', page))
    assert named
