"""`python -m team_notes`"""

from __future__ import annotations

from rowgate_plugin import serve
from team_notes.server import server

serve(server)
