"""The pages that have a generated half."""

from __future__ import annotations

from generator import commands, configuration, errors, events, metrics
from generator.page import Page

PAGES = (
    Page("errors.md", errors.body),
    Page("configuration.md", configuration.body),
    Page("metrics.md", metrics.body),
    Page("logs.md", events.body),
    Page("cli.md", commands.body),
)
