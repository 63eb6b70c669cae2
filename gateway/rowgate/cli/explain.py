"""`rowgate explain`: what a caller would meet with one call, and why."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rowgate.cli.exits import CONFIGURATION, FINDINGS, START
from rowgate.config.load import check
from rowgate.config.models import Config
from rowgate.errors import GatewayError
from rowgate.policy.capability import Kind
from rowgate.policy.explanation import Question, Step, refused

_MARKS = {"ok": "ok  ", "no": "NO  ", "open": "?   ", "info": "    "}


@click.command()
@click.argument("path", required=False, metavar="[PATH]")
@click.option("--server", required=True, help="Name of the server.")
@click.option("--call", "name", required=True, metavar="NAME", help="Tool, prompt or URI as clients name it.")
@click.option(
    "--kind",
    type=click.Choice(["tool", "prompt", "resource", "template"]),
    default="tool",
    show_default=True,
    help="What NAME is.",
)
@click.option(
    "--token",
    "source",
    metavar="SOURCE",
    help="Where the caller's token or API key stands: - for standard input, env:NAME for a variable. "
    "Never the token itself: other users of this machine see command lines.",
)
@click.option("--arguments", metavar="JSON", help="Arguments of the call: an authorizer and a hook are then asked.")
@click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
@click.pass_obj
def explain(
    config_path: str,
    path: str | None,
    server: str,
    name: str,
    kind: Kind,
    source: str | None,
    arguments: str | None,
    as_json: bool,
) -> None:
    """Print the decision about one call of one caller, step by step, with the configuration at PATH. Keys are fetched
    and whoever decides about callers is asked; no plugin is.

    Exits 0 when the call would go on, 1 when it would be refused, 78 when the configuration is not valid."""
    file = path or config_path
    token = _token(source)
    question = Question(kind, name, _arguments(arguments))
    checked = check(Path(file), os.environ)
    if checked.config is None:
        for problem in checked.problems:
            click.echo(problem.render(file), err=True)
        raise SystemExit(CONFIGURATION)
    if server not in checked.config.servers:
        raise click.BadParameter(f"is none of {', '.join(checked.config.servers)}", param_hint="--server")
    try:
        steps = asyncio.run(explained(checked.config, server, token, question))
    except GatewayError as error:
        click.echo(f"rowgate explain: {error.code}: {error.message}", err=True)
        raise SystemExit(START) from None
    click.echo(json.dumps(_report(steps), indent=2) if as_json else _text(steps))
    if steps[-1].state == "no":
        raise SystemExit(FINDINGS)


async def explained(config: Config, name: str, token: str | None, question: Question) -> list[Step]:
    """Raises StartError when a hook cannot be loaded."""
    from aiohttp import ClientSession, DummyCookieJar
    from multidict import CIMultiDict

    from rowgate.app import context_keys
    from rowgate.auth.authenticators import authenticators
    from rowgate.observe.events import discard
    from rowgate.policy import assembly
    from rowgate.policy.assembly import Asked, authorizer_of, rules_of
    from rowgate.policy.explanation import Explanation
    from rowgate.supabase.callers import admissions, sessions_of, strategy_of
    from rowgate.supabase.project import supabase_api
    from rowgate.upstream.context import ContextIssuer

    server = config.servers[name]
    only = config.model_copy(update={"servers": {name: server}})
    headers = CIMultiDict({} if token is None else {"Authorization": f"Bearer {token}"})
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(ClientSession(cookie_jar=DummyCookieJar(), trust_env=False))
        api = supabase_api(config, session)
        auth = authenticators(
            {name: strategy_of(config, server)}, session, ask=None if api is None else api.rpc_as_gateway
        )
        stack.push_async_callback(auth.close)
        sessions = sessions_of(config, api)
        if sessions is not None:
            stack.push_async_callback(sessions.close)
        context = ContextIssuer(
            context_keys(config), issuer=config.gateway.public_url, lifetime=config.gateway.context.lifetime
        )
        asked = Asked(session, api, context, sessions)
        every = rules_of(only, asked)
        stack.push_async_callback(assembly.close, every)
        rules = every[name]
        told: list[Step] = []
        try:
            caller = await auth.by_server[name].authenticate(headers)
            told.append(Step("authentication", "ok", f"mode {server.auth.mode}"))
            admission = admissions(only, sessions, discard)[name]
            if admission is not None:
                await admission.require(caller)
                told.append(Step("admission", "ok", "client, assurance and session"))
            if rules.grants is not None:
                caller = await rules.grants.applied(caller)
        except GatewayError as error:
            return [*told, refused(error)]
        steps = await Explanation(server, rules, authorizer_of(server, name, asked)).steps(caller, question)
        return [*told, *steps]


def _token(source: str | None) -> str | None:
    if source is None:
        return None
    if source == "-":
        return sys.stdin.readline().strip()
    kind, _, name = source.partition(":")
    if kind != "env" or not name:
        # Without what was given: it may be the token.
        raise click.BadParameter("must be - or env:NAME, never the token itself", param_hint="--token")
    if name not in os.environ:
        raise click.BadParameter("names a variable that is not set", param_hint="--token")
    return os.environ[name].strip()


def _arguments(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--arguments")
    return value


def _report(steps: list[Step]) -> dict[str, object]:
    return {"report": "rowgate-explain-1", "outcome": steps[-1].state, "steps": [asdict(step) for step in steps]}


def _text(steps: list[Step]) -> str:
    width = max(len(step.what) for step in steps)
    return "\n".join(f"{_MARKS[step.state]}{step.what.ljust(width)}  {step.detail}".rstrip() for step in steps)
