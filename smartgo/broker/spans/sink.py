"""The receiver of a broker's spans, and the choice of one by the settings."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol
from urllib.parse import urlsplit

from twisted.internet.defer import Deferred

from smartgo.broker.cluster.registration import Identity
from smartgo.broker.spans.tracedmessages import TracedMessage
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError

_OTEL = "smartgo.broker.spans.otelspans"
_PATH = "/v1/traces"


class SpanSink(Protocol):
    """
    Makes and exports spans; used on the reactor thread, which it never blocks.

    @ivar skipped: bytes of log whose messages have no spans, as they were not looked at.
    """

    skipped: int

    @property
    def exported(self) -> int:
        """The number of spans that were exported."""

    @property
    def lost(self) -> int:
        """The number of spans that could not be exported, or found no room."""

    def stored(self, message: TracedMessage) -> None:
        """Make the span of a message that was stored."""

    def delivered(self, group: str, message: TracedMessage) -> None:
        """Make the span of a message that a consumer group gets now."""

    def stop(self) -> Deferred[None]:
        """Export what is left; fires after two seconds at the latest, and never fails."""


def traces_endpoint(setting: str) -> str:
    """
    Return the URL that spans are sent to: the setting, with OTLP's path where it has none.

        >>> traces_endpoint("http://127.0.0.1:4318")
        'http://127.0.0.1:4318/v1/traces'
    """
    return setting.rstrip("/") + _PATH if urlsplit(setting).path in ("", "/") else setting


def check_spans(configuration: Configuration) -> None:
    """@raise SettingError: C{otelEndpoint} is set, and the packages of OpenTelemetry are not installed."""
    if not configuration.broker.otel_endpoint:
        return
    try:
        import_module(_OTEL)
    except ImportError as error:
        raise SettingError(f"otelEndpoint needs more packages: pip install 'smartgo[otel]' ({error})") from None


def span_sink(env: IEnvironment, configuration: Configuration, identity: Identity) -> SpanSink | None:
    """
    Return what makes the spans of a broker; C{None} where the settings ask for none, and nothing is loaded then.

    @raise SettingError: the packages of OpenTelemetry are not installed, or refuse a variable of their own.
    """
    endpoint = configuration.broker.otel_endpoint
    if not endpoint:
        return None
    check_spans(configuration)
    sink: SpanSink = import_module(_OTEL).otel_spans(env, traces_endpoint(endpoint), identity)
    return sink
