from __future__ import annotations

import pytest
from markdown_pages import Document, documents


@pytest.fixture(params=documents(), ids=str)
def document(request: pytest.FixtureRequest) -> Document:
    found: Document = request.param
    return found
