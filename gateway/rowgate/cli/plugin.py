"""`rowgate plugin check`: whether a plugin, in whatever language, believes the gateway and nobody else."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from rowgate.cli.exits import FINDINGS
from rowgate.config.plugin import Plugin
from rowgate.errors import GatewayError, StartError
from rowgate.upstream.conformance import Check, Examiner, examine
from rowgate.upstream.context import signing_key
from rowgate.upstream.pooled import leg_to

ISSUER = "rowgate-plugin-check"


@click.group()
def plugin() -> None:
    """Look at a plugin from outside."""


@plugin.command()
@click.argument("url")
@click.option("--audience", required=True, metavar="NAME", help="The name by which the plugin knows itself.")
@click.option(
    "--key",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with a private key, JWK or PEM, whose public half the plugin trusts.",
)
@click.option("--issuer", default=ISSUER, show_default=True, metavar="URL", help="For a plugin that accepts only one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(url: str, key: Path, audience: str, issuer: str, as_json: bool) -> None:
    """Ask the plugin at URL good and bad questions, signed as a gateway would.

    URL is an http or https URL, or the absolute path of a Unix socket. Run it against a plugin that trusts a key of
    your own for the occasion: whoever holds the gateway's can be anybody.

    Exits 0 when everything is as the contract says, 1 when something is BROKEN, 2 when it cannot be tried."""
    settings = _settings(url)
    try:
        signing = signing_key(key.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{key} cannot be read.") from None
    except GatewayError:
        raise click.UsageError(f"{key} is not a private Ed25519 key as a JWK or PEM.") from None
    examiner = Examiner(signing, audience=audience, issuer=issuer)
    checks = asyncio.run(_run(examiner, settings, quiet=as_json))
    passed = all(one.ok for one in checks)
    if as_json:
        click.echo(json.dumps(_report(url, checks, passed), indent=2))
    else:
        click.echo("ok" if passed else "BROKEN: do not let users' tokens reach this plugin.")
    if not passed:
        sys.exit(FINDINGS)


def _settings(url: str) -> Plugin:
    try:
        return Plugin(socket=url) if url.startswith("/") else Plugin(url=url)
    except ValidationError as error:
        raise click.UsageError(f"URL {error.errors(include_input=False)[0]['msg']}.") from None


async def _run(examiner: Examiner, settings: Plugin, *, quiet: bool) -> list[Check]:
    checks = []
    try:
        leg = leg_to(settings)
    except StartError as error:
        raise click.UsageError(error.message) from None
    try:
        async for one in examine(examiner, leg):
            checks.append(one)
            if not quiet:
                click.echo(f"{'ok' if one.ok else 'BROKEN':<8}{one.name}{f' ({one.detail})' if one.detail else ''}")
    finally:
        await leg.close()
    return checks


def _report(url: str, checks: list[Check], passed: bool) -> dict[str, Any]:
    return {"report": "rowgate-plugin-1", "url": url, "passed": passed, "checks": [asdict(one) for one in checks]}
