"""Bring messages to receivers over HTTP: resolve secrets, post, judge the answer. Mail: L{smartgo.ops.alerts.mail}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.error import ConnectError, ConnectingCancelledError, ConnectionClosed
from twisted.internet.interfaces import IConsumer, IProtocol, IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from twisted.web.client import URI, Agent, RequestTransmissionFailed, ResponseFailed
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory, IBodyProducer, IResponse
from zope.interface import implementer

from smartgo.config.receivers import AlertReceiver, wrong_url
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError, SmartgoError
from smartgo.net.tls import ClientTLS, readable
from smartgo.ops.alerts.messages import HttpMessage, NoticeOrigin, answered, refusal, requests
from smartgo.ops.alerts.notices import Batch

TIMEOUT: Final = 15.0
"""Seconds for one request, from the connection to the end of the answer."""

UNREACHED: Final = (CancelledError, ConnectError, ConnectingCancelledError, ConnectionClosed, OSError, SmartgoError)
"""Errors of an attempt that may succeed later: no connection, none in time, or one that broke off."""

_ANSWER: Final = 64 * 1024
_SECRET: Final = 8192
_LANE: Final = "tables"


class NotDelivered(SmartgoError):
    """
    A message that a receiver did not take.

    @ivar refused: the receiver itself refused it, so that the same message will be refused again.
    """

    def __init__(self, message: str, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class NoticeSender(Protocol):
    """Brings messages to one receiver."""

    async def send(self, batch: Batch) -> str:
        """Send a message; return what the receiver answered. @raise NotDelivered: it did not take it."""


# -- secrets ---------------------------------------------------------------------------------------------------


def check_secrets(env: IEnvironment, receivers: Sequence[AlertReceiver]) -> None:
    """
    Check that the secrets of receivers can be read; blocking.

    @raise SettingError: a variable is not set, a file cannot be read, or what it gives is no secret.
    """
    for one in receivers:
        _resolved(env, one)
        ClientTLS(env, one.ca or None)


async def resolve(env: IEnvironment, receiver: AlertReceiver) -> AlertReceiver:
    """Return a receiver with its secrets as they are now. @raise NotDelivered: one cannot be read."""
    try:
        resolved: AlertReceiver = await env.threads.run(_LANE, _resolved, env, receiver)
        return resolved
    except SettingError as error:
        raise NotDelivered(str(error)) from None


def _resolved(env: IEnvironment, receiver: AlertReceiver) -> AlertReceiver:
    secrets = {name: _secret(env, receiver, name, value) for name, value in receiver.secrets.items()}
    wrong = wrong_url(secrets["url"]) if "url" in secrets else ""
    if wrong:
        raise SettingError(f"alertReceivers: {receiver.name} {wrong}")
    return msgspec.structs.replace(receiver, **secrets)


def _secret(env: IEnvironment, receiver: AlertReceiver, name: str, value: str) -> str:
    """Return a secret; blocking. @raise SettingError: it cannot be read."""
    kind, _, place = value.partition(":")
    if kind == "env":
        found = env.host.variable(place)
        if not found:
            raise SettingError(f"alertReceivers: the variable {place} ({name} of {receiver.name}) is not set")
        return _one_line(found, f"the variable {place}")
    if kind == "file":
        try:
            content = env.files.read(place, _SECRET)
        except OSError as error:
            reason = error.strerror or error
            raise SettingError(f"alertReceivers: cannot read {place} ({name} of {receiver.name}): {reason}") from None
        return _one_line(content.decode("utf-8", "replace").strip(), place)
    return value


def _one_line(text: str, place: str) -> str:
    if not text or not text.isprintable():
        raise SettingError(f"alertReceivers: {place} is empty, or is not one line of text")
    return text


# -- HTTP ------------------------------------------------------------------------------------------------------


class HttpSender:
    """Posts messages to one HTTP receiver."""

    def __init__(self, env: IEnvironment, receiver: AlertReceiver, origin: NoticeOrigin) -> None:
        """@raise SettingError: the file of authorities cannot be read."""
        self._env = env
        self._receiver = receiver
        self._origin = origin
        self._tls = ClientTLS(env, receiver.ca or None)

    async def send(self, batch: Batch) -> str:
        """Post the requests of a message. @raise NotDelivered: one was not taken; those after it are not made."""
        receiver = await resolve(self._env, self._receiver)
        answer = ""
        for message in requests(receiver, batch, self._origin, self._env.clock.wall_ms()):
            status, body = await self._post(message)
            reason = refusal(receiver, status, body)
            if reason:
                raise NotDelivered(reason, _is_final(status))
            answer = answered(status, body)
        return answer

    async def _post(self, message: HttpMessage) -> tuple[int, bytes]:
        """Return status and body of the answer. @raise NotDelivered: there is none."""
        exchange = Deferred.fromCoroutine(self._exchange(message))
        timer = self._env.clock.callLater(TIMEOUT, exchange.cancel)
        try:
            return await exchange
        except (*UNREACHED, RequestTransmissionFailed, ResponseFailed) as error:
            if timer.active() and isinstance(error, (CancelledError, ConnectingCancelledError)):
                raise  # the process stops
            late = not timer.active()
            raise NotDelivered(f"no answer within {TIMEOUT:g} s" if late else _reason(error)) from None
        finally:
            if timer.active():
                timer.cancel()

    async def _exchange(self, message: HttpMessage) -> tuple[int, bytes]:
        agent = Agent.usingEndpointFactory(self._env.clock, _Endpoints(self._env, self._tls))
        headers = Headers({name: [value] for name, value in {"User-Agent": "smartgo", **message.headers}.items()})
        response: IResponse = await agent.request(b"POST", message.url.encode(), headers, _Body(message.body))
        answer = _Answer()
        response.deliverBody(answer)
        return response.code, await answer.ended


def _is_final(status: int) -> bool:
    """Return whether the same request would be refused again."""
    return 200 <= status < 500 and status not in (408, 425, 429)


def _reason(error: Exception) -> str:
    """Return why there was no answer, in words."""
    failure = Failure(error)
    if isinstance(error, (RequestTransmissionFailed, ResponseFailed)) and error.reasons:
        failure = error.reasons[-1]
    return str(readable(failure).value).rstrip(".") or type(error).__name__


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Makes the endpoints of an agent: connections of the environment, with TLS for https."""

    def __init__(self, env: IEnvironment, tls: ClientTLS) -> None:
        self._env = env
        self._tls = tls

    def endpointForURI(self, uri: URI) -> IStreamClientEndpoint:
        """Return the endpoint of a URL."""
        endpoint: IStreamClientEndpoint = _Endpoint(self._env, uri, self._tls if uri.scheme == b"https" else None)
        return endpoint


@implementer(IStreamClientEndpoint)
class _Endpoint:
    """Connects to the host of one URL."""

    def __init__(self, env: IEnvironment, uri: URI, tls: ClientTLS | None) -> None:
        self._env = env
        self._host = urlsplit(uri.toBytes().decode("ascii")).hostname or ""
        self._port = uri.port
        self._tls = tls

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Connect; fires with the protocol that speaks HTTP."""
        if self._tls is None:
            plain: Deferred[Any] = self._env.network.connect(self._host, self._port, protocolFactory, TIMEOUT)
            return plain
        creator = self._tls.creator(self._host)
        secured = TLSMemoryBIOFactory(creator, True, protocolFactory, self._env.clock)
        made: Deferred[Any] = self._env.network.connect(self._host, self._port, secured, TIMEOUT)
        return made.addCallback(lambda layer: layer.wrappedProtocol)


@implementer(IBodyProducer)
class _Body:
    """The body of a request, written at once."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.length = len(content)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        """Write all of it."""
        consumer.write(self._content)
        return succeed(None)

    def pauseProducing(self) -> None:
        """Do nothing: everything was written."""

    def resumeProducing(self) -> None:
        """Do nothing: everything was written."""

    def stopProducing(self) -> None:
        """Do nothing: everything was written."""


class _Answer(TwistedProtocol):
    """
    The body of an answer, of which only the beginning is kept.

    @ivar ended: fires with it; cancelling closes the connection.
    """

    def __init__(self) -> None:
        self._content = bytearray()
        self.ended: Deferred[bytes] = Deferred(lambda _: self._close())

    def dataReceived(self, data: bytes) -> None:
        """Collect; close the connection when there is enough."""
        self._content += data
        if len(self._content) > _ANSWER:
            self._close()

    def _close(self) -> None:
        transport: Any = self.transport
        transport.loseConnection()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Fire C{ended} with what was received: the status of an answer that breaks off counts."""
        if not self.ended.called:
            self.ended.callback(bytes(self._content[:_ANSWER]))
