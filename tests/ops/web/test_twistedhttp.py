"""What the HTTP front uses of Twisted's private names still means what it is taken for."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http import HTTPChannel
from twisted.web.server import GzipEncoderFactory, Request

from smartgo.ops.web.twistedhttp import ChannelAdapter, RequestAdapter


class KeptRequest(RequestAdapter):
    """A request that is not answered until somebody does it."""

    def __init__(self, channel: Any, queued: object = False) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)

    def process(self) -> None:
        """Wait."""


class AdapterTests(SynchronousTestCase):
    """The names of Twisted that the adapters use."""

    def setUp(self) -> None:
        """Connect a channel to a transport in memory."""
        self.channel = cast("Any", ChannelAdapter())
        self.channel.requestFactory = KeptRequest
        self.channel.site = self
        self.channel.factory = self
        self.channel.callLater = lambda *arguments: None
        self.transport = StringTransport()
        self.channel.makeConnection(self.transport)
        self.channel.setTimeout(None)

    def log(self, request: object) -> None:
        """Write no access log: the channel's factory does."""

    def test_there(self) -> None:
        """Twisted's channel and request still have the names that the adapters read, set or override."""
        channel: Any = HTTPChannel()
        channel.site = channel.factory = self
        channel.requestFactory = KeptRequest
        channel.callLater = lambda *arguments: None
        channel.makeConnection(StringTransport())
        channel.dataReceived(b"GET / HTTP/1.1\r\n")
        for name in ("_receivedHeaderCount", "_command", "_path", "_handlingRequest", "_buffer"):
            self.assertTrue(hasattr(channel, name), name)
        self.assertTrue(hasattr(HTTPChannel, "_respondToBadRequestAndDisconnect"))
        request: Any = Request(channel, True, parsePOSTFormSubmission=False)
        for name in ("_disconnected", "_encoder"):
            self.assertTrue(hasattr(request, name), name)

    def test_head(self) -> None:
        """Bytes of a line that has not ended are seen; so are the method, the target and the number of headers."""
        self.assertFalse(self.channel.has_partial_line)
        self.channel.dataReceived(b"GET /a?b")
        self.assertTrue(self.channel.has_partial_line)
        self.channel.dataReceived(b"=c HTTP/1.1\r\nHost: x\r\nAccept: y\r\nX: ")
        self.assertEqual((self.channel.request_method, self.channel.request_target), (b"GET", b"/a?b=c"))
        self.assertEqual(self.channel.header_count, 1)  # the last one may go on in the next line
        self.assertFalse(self.channel.is_served)
        self.channel.dataReceived(b"z\r\n\r\n")
        self.assertTrue(self.channel.is_served)

    def test_served(self) -> None:
        """A request is served until it is finished."""
        self.channel.dataReceived(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        (request,) = self.channel.requests
        request.finish()
        self.assertFalse(self.channel.is_served)

    def test_disconnected(self) -> None:
        """A request whose connection is lost knows it."""
        self.channel.dataReceived(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        (request,) = self.channel.requests
        self.assertFalse(request.is_disconnected)
        self.channel.connectionLost(Failure(ConnectionError("gone")))
        self.assertTrue(request.is_disconnected)

    def test_bad_request(self) -> None:
        """A request that is not HTTP is answered with 400, by what a subclass may override."""
        self.channel.dataReceived(b"nonsense\r\n\r\n")
        self.assertIn(b"400 Bad Request", self.transport.value())
        self.setUp()
        default, refused = self.channel.bad_request, []

        def refuse() -> None:
            refused.append("bad")
            default()

        self.channel.bad_request = refuse
        self.channel.dataReceived(b"nonsense\r\n\r\n")
        self.assertEqual(refused, ["bad"])

    def test_compress(self) -> None:
        """An encoder compresses what is written; without one it goes out as it is."""
        for encoded in (True, False):
            self.setUp()
            self.channel.dataReceived(b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
            (request,) = self.channel.requests
            self.assertFalse(request.is_compressed)
            request.compress(GzipEncoderFactory().encoderForRequest(request) if encoded else None)
            self.assertEqual(request.is_compressed, encoded)
            request.write(b"words " * 100)
            request.finish()
            self.assertEqual(b"words words" in self.transport.value(), not encoded)
