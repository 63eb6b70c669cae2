"""Who listens: log, audit, metrics and health, behind one emitter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rowgate import __version__, extension
from rowgate.config.defaults import issuers_of
from rowgate.config.models import Config
from rowgate.observe.audit import audit_subscriber
from rowgate.observe.events import Emit, Selective, fan_out
from rowgate.observe.fields import ClientFields
from rowgate.observe.health import CHANGES, Health
from rowgate.observe.lines import LineWriter, stdout_writer
from rowgate.observe.log import log_subscriber, route_library_logs
from rowgate.observe.metrics import Metrics
from rowgate.observe.sinks import GROUP, EventSink


@dataclass(frozen=True, slots=True)
class Observers:
    emit: Emit
    metrics: Metrics
    health: Health


@contextmanager
def observers(config: Config, writer: LineWriter | None = None) -> Iterator[Observers]:
    """Log and audit go to standard output, or to `writer`. Leaving writes what is still gathered.

    Raises StartError when an event sink cannot be loaded."""
    metrics = Metrics(__version__)
    health = Health(
        issuers=dict.fromkeys(
            issuer.issuer
            for server in config.servers.values()
            for issuer in issuers_of(config, server)
            if issuer.jwks_url is not None
        ),
        required_plugins=[name for name, plugin in config.plugins.items() if plugin.required],
    )
    lines = writer or stdout_writer(on_loss=metrics.lines_lost)
    restore = route_library_logs(config.gateway.log, lines)
    privileged = frozenset(name for name, plugin in config.plugins.items() if plugin.privileged)
    client_fields = ClientFields()
    log = log_subscriber(config.gateway.log, lines, client_fields=client_fields)
    audit = audit_subscriber(config.gateway.log, lines, privileged=privileged, client_fields=client_fields)
    sinks = [
        EventSink(extension.load(name, GROUP), name, on_loss=metrics.event_lost, on_error=log)
        for name in config.gateway.event_sinks
    ]
    try:
        told: list[Emit] = [metrics.emit, Selective(health.emit, CHANGES), log, audit, *(sink.emit for sink in sinks)]
        yield Observers(fan_out(*told), metrics, health)
    finally:
        for sink in sinks:
            sink.close()
        restore()
        lines.close()
