"""The listeners of a client that its settings ask for."""

from __future__ import annotations

from importlib import import_module

from smartgo.client.client import Client
from smartgo.client.internal.events import Events
from smartgo.client.internal.tracewriter import TraceWriter
from smartgo.errors import SettingError


def events_of(client: Client) -> Events:
    """
    Return what producers and consumers of a client tell their events; the first call makes the listeners.

    @raise SettingError: OpenTelemetry is asked for and not installed.
    """
    events = client.events
    if events.made:
        return events
    tracing = events.tracing
    if tracing.opentelemetry:
        try:
            telemetry = import_module("smartgo.client.internal.telemetry")
        except ImportError as error:
            raise SettingError(f"OpenTelemetry needs more packages: pip install 'smartgo[otel]' ({error})") from None
        events.listeners.append(telemetry.Telemetry(tracing.opentelemetry, client.id, client.env.clock))
    if tracing.topic:
        events.listeners.append(TraceWriter(client, tracing.topic))
    events.made = True
    return events
