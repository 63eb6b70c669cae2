from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from markdown_pages import ROOT, Document, read


def test_every_relative_link_leads_to_a_file_and_its_anchor(document: Document) -> None:
    for link in document.links:
        url = urlsplit(link)
        if url.scheme:
            continue
        target = (document.path.parent / unquote(url.path)).resolve() if url.path else document.path
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if url.fragment and target.suffix == ".md":
            assert url.fragment in read(target).anchors, link


def test_every_page_begins_with_its_one_title(document: Document) -> None:
    assert document.text.startswith("# ")
    assert len(re.findall(r"^# ", document.prose, re.MULTILINE)) == 1
