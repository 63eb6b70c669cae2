"""`rowgate health`: one question to a running gateway, for a container's health check."""

from __future__ import annotations

import sys
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import click


@click.command()
@click.option("--url", default="http://127.0.0.1:9090/readyz", show_default=True, help="Internal listener's endpoint.")
def health(url: str) -> None:
    """Exit 0 when the gateway is ready, 1 when it is not or does not answer."""
    # A proxy that the environment names would be asked about its own loopback.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=3) as answer:
            click.echo(answer.read().decode())
    except HTTPError as error:
        click.echo(error.read().decode(errors="replace"), err=True)
        sys.exit(1)
    except (OSError, ValueError, HTTPException) as error:
        click.echo(f"no answer: {error}", err=True)
        sys.exit(1)
