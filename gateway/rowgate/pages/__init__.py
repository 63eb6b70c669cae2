"""What a person sees who opens an endpoint in a browser."""

from __future__ import annotations

from html import escape

from rowgate.protocol.answers import ServerIdentity

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.55 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1.25rem; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin-bottom: .25rem; }}
code {{ font: .92em ui-monospace, monospace; background: color-mix(in srgb, currentColor 9%, transparent);
  padding: .15em .35em; border-radius: .3em; overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; }} pre code {{ display: block; padding: .8em 1em; white-space: pre; overflow-wrap: normal; }}
dt {{ font-weight: 600; margin-top: 1rem; }} dd {{ margin: .2rem 0 0; }}
.lead {{ color: color-mix(in srgb, currentColor 72%, transparent); margin-top: 0; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">This address is for AI assistants: it speaks the Model Context Protocol.</p>
<p>Add it to your assistant as a connector or MCP server. It will send you to sign in,
and sees only what you may see.</p>
<pre><code>{url}</code></pre>
<dl>
<dt>Claude, ChatGPT</dt><dd>Settings, Connectors, add a custom connector with this address.</dd>
<dt>Claude Code</dt><dd><code>claude mcp add --transport http {name} {url}</code></dd>
<dt>Cursor, VS Code, Codex</dt><dd>Add an HTTP MCP server with this address.</dd>
</dl>
</main>
</body>
</html>
"""


def connect_page(server: ServerIdentity, url: str) -> tuple[bytes, dict[str, str]]:
    """The page and its headers. It takes no input and loads nothing."""
    page = _PAGE.format(title=escape(server.title or server.name), name=escape(server.name), url=escape(url))
    return page.encode(), dict(_HEADERS)
