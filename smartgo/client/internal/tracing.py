"""The listeners of a client that its settings ask for."""

from __future__ import annotations

from smartgo.client.client import Client
from smartgo.client.internal.events import Events
from smartgo.client.internal.tracewriter import TraceWriter


def events_of(client: Client) -> Events:
    """Return what producers and consumers of a client tell their events; the first call makes the listeners."""
    events = client.events
    if events.trace_topic and not any(isinstance(one, TraceWriter) for one in events.listeners):
        events.listeners.append(TraceWriter(client, events.trace_topic))
    return events
