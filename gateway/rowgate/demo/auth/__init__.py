"""A stand-in for Supabase Auth: what the demo and the tests use of it, in memory, answered as the real one does."""

from rowgate.demo.auth.server import AuthServer

__all__ = ["AuthServer"]
