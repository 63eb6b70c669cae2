"""`rowgate health`: one question to a running gateway, for a container's health check."""

from __future__ import annotations

import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import click


@click.command()
@click.option("--url", default="http://127.0.0.1:9090/readyz", show_default=True, help="Internal listener's endpoint.")
def health(url: str) -> None:
    """Exit 0 when the gateway is ready, 1 when it is not or does not answer."""
    try:
        with urlopen(url, timeout=3) as answer:  # noqa: S310 - the operator names the URL
            click.echo(answer.read().decode())
    except HTTPError as error:
        click.echo(error.read().decode(), err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"no answer: {error}", err=True)
        sys.exit(1)
