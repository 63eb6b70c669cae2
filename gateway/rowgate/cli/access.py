"""`rowgate access`: who may use what, as a matrix that stays the same while the configuration does."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click

from rowgate.cli.exits import CONFIGURATION, FINDINGS
from rowgate.config.load import check
from rowgate.config.models import Config
from rowgate.policy.access import MEANINGS, Row
from rowgate.policy.access import access as matrix
from rowgate.policy.capability import Kind

Offered = Mapping[str, Mapping[Kind, Sequence[str]]]


@click.command()
@click.argument("path", required=False, metavar="[PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option("--live", is_flag=True, help="Ask the plugins at a url or socket what they offer, in place of globs.")
@click.pass_obj
def access(config_path: str, path: str | None, as_json: bool, live: bool) -> None:
    """Print who may use what: each capability of the configuration at PATH against each kind of caller that its rules
    tell apart. Keep the output as a snapshot: a change of rules then shows in review.

    Exits 1 when a plugin of --live gave no lists, 78 when the configuration is not valid."""
    file = path or config_path
    checked = check(Path(file), os.environ)
    if checked.config is None:
        for problem in checked.problems:
            click.echo(problem.render(file), err=True)
        raise SystemExit(CONFIGURATION)
    offered: Offered = asyncio.run(offers(checked.config)) if live else {}
    rows = matrix(checked.config, offered)
    click.echo(json.dumps(_report(rows), indent=2) if as_json else _text(rows))
    missing = sorted(set(checked.config.plugins) - set(offered)) if live else []
    if missing:
        click.echo(f"No lists from {', '.join(missing)}: shown as the entries name them.", err=True)
        raise SystemExit(FINDINGS)


async def offers(config: Config) -> Offered:
    """Names by plugin and kind, of the plugins that answer and offer everybody the same."""
    from rowgate.app import context_keys
    from rowgate.observe.events import discard
    from rowgate.policy.capability import IDENTITY, KINDS
    from rowgate.policy.offers import fetch
    from rowgate.upstream.context import ContextIssuer
    from rowgate.upstream.forward import Forwarder
    from rowgate.upstream.pooled import leg_to

    reachable = {
        name: plugin for name, plugin in config.plugins.items() if plugin.command is None and plugin.lists == "shared"
    }
    found: dict[str, dict[Kind, Sequence[str]]] = {}
    async with AsyncExitStack() as stack:
        legs = {name: leg_to(plugin, None) for name, plugin in reachable.items()}
        for leg in legs.values():
            stack.push_async_callback(leg.close)
        context = ContextIssuer(
            context_keys(config), issuer=config.gateway.public_url, lifetime=config.gateway.context.lifetime
        )
        forwarder = Forwarder(reachable, legs=legs, context=context, emit=discard)
        for name in reachable:
            fetched = await fetch(name, forwarder.ask, None, asyncio.get_running_loop().time)
            if not fetched.failures:
                found[name] = {
                    KINDS[method]: [str(item[IDENTITY[KINDS[method]]]) for item in listing.items]
                    for method, listing in fetched.listings.items()
                }
    return found


def _report(rows: Sequence[Row]) -> dict[str, object]:
    return {"report": "rowgate-access-1", "answers": dict(MEANINGS), "capabilities": [asdict(row) for row in rows]}


def _text(rows: Sequence[Row]) -> str:
    parts = [_table(server, list(group)) for server, group in groupby(rows, key=lambda row: row.server)]
    used = {answer for row in rows for answer in row.answers.values()}
    legend = [f"{answer:<10}{meaning}" for answer, meaning in MEANINGS.items() if answer in used]
    return "\n\n".join([*parts, "\n".join(legend)])


def _table(server: str, rows: Sequence[Row]) -> str:
    columns = ["capability", "plugin", *rows[0].answers]
    lines = [[f"{row.kind} {row.name}", row.plugin + ("!" * row.privileged), *row.answers.values()] for row in rows]
    widths = [max(len(line[index]) for line in [columns, *lines]) for index in range(len(columns))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [columns, *lines]
    ]
    marked = "\nA plugin with ! is privileged: what it does passes Row Level Security." * any(
        r.privileged for r in rows
    )
    return f"server {server}\n\n" + "\n".join(line.rstrip() for line in text) + marked
