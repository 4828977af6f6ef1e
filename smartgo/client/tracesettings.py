"""The settings of what a client tells of its sends and its consumption: message traces and OpenTelemetry."""

from __future__ import annotations

from typing import Any

import msgspec

from smartgo.schema.topics import TRACE_TOPIC, check_topic


class Tracing(msgspec.Struct, frozen=True, kw_only=True):
    """
    The traces of sends and consumption that a client makes; by default none. See C{docs/tracing.rst}.

        >>> Tracing(messages="MyTraces").topic
        'MyTraces'

    @ivar messages: write message traces: C{True} to C{RMQ_SYS_TRACE_TOPIC}, or the name of their topic.
    @ivar opentelemetry: make OpenTelemetry spans: C{True} with the global tracer provider, or a C{TracerProvider}. It
        needs the extra C{smartgo[otel]}.
    """

    messages: bool | str = False
    opentelemetry: Any = False

    def __post_init__(self) -> None:
        """@raise BadName: the name of the topic breaks the rules."""
        if isinstance(self.messages, str) and self.messages:
            check_topic(self.messages)

    @property
    def topic(self) -> str:
        """The topic of message traces; C{""} to write none."""
        if isinstance(self.messages, str):
            return self.messages
        return TRACE_TOPIC if self.messages else ""


def tracing_of(choice: bool | str | Tracing) -> Tracing:
    """Return the settings that a client's argument C{trace} stands for. @raise BadName: see L{Tracing}."""
    return choice if isinstance(choice, Tracing) else Tracing(messages=choice)
