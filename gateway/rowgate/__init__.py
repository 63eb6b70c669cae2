"""rowgate: an authenticating reverse proxy for MCP in front of Supabase applications."""

__version__ = "0.1.0"
