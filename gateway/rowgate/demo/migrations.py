"""What is written to the database: what Supabase brings, its users, then the builder's migrations."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from rowgate.demo.auth.answers import AuthError
from rowgate.demo.auth.users import User
from rowgate.demo.postgres import Postgres
from rowgate.errors import StartError

_INSERT_USER = """
insert into auth.users (id, email, email_confirmed_at, raw_app_meta_data, raw_user_meta_data, is_anonymous)
values ($1, nullif($2, ''), now(), $3, $4, $5)
on conflict (id) do update set email = excluded.email
"""
_BOOTSTRAP = Path(__file__).with_name("bootstrap.sql")


async def bootstrap(database: Postgres) -> str:
    """Make the roles and the schema `auth`. Returns the new password of `authenticator`."""
    password = secrets.token_urlsafe(24)
    async with _connection(database) as connection:
        await connection.execute(_BOOTSTRAP.read_text())
        # ALTER ROLE takes no parameters; the server quotes for us.
        statement = await connection.fetchval(
            "select format('alter role authenticator password %L', $1::text)", password
        )
        await connection.execute(statement)
    return password


async def migrate(database: Postgres, files: Sequence[Path]) -> None:
    """Run each file once, by its name, in a transaction of its own. Raises StartError with the file that failed."""
    async with _connection(database) as connection:
        for file in files:
            await _migrate(connection, file.name, file.read_text())


async def _migrate(connection: asyncpg.Connection, name: str, text: str) -> None:
    ran = await connection.fetchval(
        "select statements from supabase_migrations.schema_migrations where version = $1", name
    )
    if ran == [text]:
        return
    if ran is not None:
        raise StartError(f"The migration {name} changed since it ran: start on an empty data directory.")
    try:
        async with connection.transaction():
            await connection.execute(text)
            await connection.execute(
                "insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $1, $2)",
                name,
                [text],
            )
    except asyncpg.PostgresError as error:
        raise StartError(f"The migration {name} failed: {error}") from error


async def insert_user(database: Postgres, user: User) -> None:
    """Raises AuthError when somebody else has the address: a sign-up of an earlier run on the same data."""
    row = (user.id, user.email, json.dumps(user.app_metadata), json.dumps(user.user_metadata), user.is_anonymous)
    async with _connection(database) as connection:
        try:
            await connection.execute(_INSERT_USER, *row)
        except asyncpg.UniqueViolationError:
            raise AuthError(422, "user_already_exists", "User already registered") from None


@asynccontextmanager
async def _connection(database: Postgres) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.dsn)
    try:
        yield connection
    finally:
        await connection.close()
