"""`rowgate limits`: what a store of counters needs."""

from __future__ import annotations

from importlib.resources import files

import click


@click.group()
def limits() -> None:
    """Prepare a database for `gateway.limits_store`."""


@limits.command()
def sql() -> None:
    """Print the migration for a store at postgresql://. Redis needs none."""
    click.echo(files("rowgate.limits").joinpath("sql/counters.sql").read_text(encoding="utf-8"), nl=False)
