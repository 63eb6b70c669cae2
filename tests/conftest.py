"""Fixtures of every directory."""

pytest_plugins = ["databases", "counter_servers"]
