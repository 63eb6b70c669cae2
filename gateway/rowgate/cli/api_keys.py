"""`rowgate api-keys`: make one, and prepare the table that holds their hashes."""

from __future__ import annotations

import secrets
from importlib.resources import files

import click

from rowgate.auth.api_keys import digest_of

_BYTES = 32


@click.group("api-keys")
def api_keys() -> None:
    """Make API keys for servers with `mode: api-key`."""


@api_keys.command()
def new() -> None:
    """Print a new key and its hash. Nothing is kept: give the key to the application and the hash to the gateway."""
    key = f"rgk_{secrets.token_urlsafe(_BYTES)}"
    click.echo(f"key:  {key}\nhash: sha256:{digest_of(key).hex()}")


@api_keys.command()
def sql() -> None:
    """Print the migration with the table of hashes and the function for `auth.lookup`."""
    click.echo(files("rowgate.supabase").joinpath("sql/api_keys.sql").read_text(encoding="utf-8"), nl=False)
