from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from recording_supabase import RecordingSupabase


@pytest.fixture
async def supabase() -> AsyncIterator[RecordingSupabase]:
    recording = RecordingSupabase()
    application = web.Application()
    application.router.add_route("*", "/{tail:.*}", recording.handle)
    async with TestServer(application) as server:
        recording.url = str(server.make_url("")).rstrip("/")
        yield recording
