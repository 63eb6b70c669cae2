from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web

ALICE = "11111111-1111-4111-8111-111111111111"
BOB = "22222222-2222-4222-8222-222222222222"


@dataclass
class RecordingSupabase:
    """A real HTTP server in the place of a project: it notes what reaches it and answers what a test sets."""

    url: str = ""
    requests: list[web.BaseRequest] = field(default_factory=list)
    answer: web.Response | None = None
    headers: dict[str, str] = field(default_factory=dict)

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        await request.read()
        if self.answer is not None:
            return web.Response(
                status=self.answer.status, body=self.answer.body, content_type="application/json", headers=self.headers
            )
        rows = [{"bearer": request.headers.get("Authorization", ""), "cookie": request.headers.get("Cookie", "")}]
        return web.json_response(rows, headers=self.headers)
