"""Receivers of alert notices for tests: an HTTP server and an SMTP server, on real sockets of this process."""

from __future__ import annotations

import os
import socket
from email import message_from_bytes
from email.message import Message
from typing import Any

from twisted.cred.checkers import InMemoryUsernamePasswordDatabaseDontUse
from twisted.cred.portal import IRealm, Portal
from twisted.internet import ssl
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import ServerFactory
from twisted.mail import smtp
from twisted.mail.imap4 import PLAINCredentials
from twisted.mail.smtp import LOGINCredentials
from twisted.trial.unittest import TestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer

from tests.fakes import FakeEnvironment
from tests.remoting.certificates import Authority


def full_port(case: TestCase) -> int:
    """Return a port of 127.0.0.1 where connections are neither accepted nor refused, as behind a firewall."""
    listening = socket.socket()
    case.addCleanup(listening.close)
    listening.bind(("127.0.0.1", 0))
    listening.listen(0)
    port: int = listening.getsockname()[1]
    for _ in range(3):
        waiting = socket.socket()
        case.addCleanup(waiting.close)
        waiting.setblocking(False)
        waiting.connect_ex(("127.0.0.1", port))
    return port


class Tls:
    """
    A certificate of 127.0.0.1 and localhost in a directory.

    @ivar authority: path of the authority's certificate.
    """

    def __init__(self, folder: str) -> None:
        authority = Authority()
        own = authority.issue("127.0.0.1", "localhost")
        self.authority = os.path.join(folder, "ca.pem")
        self._certificate, self._key = os.path.join(folder, "own.pem"), os.path.join(folder, "own.key")
        contents = zip((self.authority, self._certificate, self._key), (authority.pem, *own), strict=True)
        for path, content in contents:
            with open(path, "wb") as file:
                file.write(content)

    def server(self) -> Any:
        """The server's context."""
        return ssl.DefaultOpenSSLContextFactory(self._key, self._certificate)


class HttpReceiver(Resource):
    """
    An HTTP server that answers as it is told.

    @ivar requests: path, headers and body of each POST.
    @ivar answers: status and body of the next answers; the last one stays. C{None}: none at all.
    """

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, bytes] | None] = [(200, b"ok")]

    def render_POST(self, request: Request) -> Any:
        """Note the request, and answer."""
        headers = {
            name.decode().lower(): values[0].decode() for name, values in request.requestHeaders.getAllRawHeaders()
        }
        content: Any = request.content
        self.requests.append((request.uri.decode(), headers, content.read()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            return NOT_DONE_YET
        request.setResponseCode(answer[0])
        return answer[1]

    def listen_in(self, env: FakeEnvironment, port: int) -> None:
        """Serve in the network of an environment of fakes."""
        site = self.site()
        site.reactor = env.clock
        env.network.listen(f"tcp:{port}", site)

    def site(self) -> Site:
        """The factory of its connections."""
        site = Site(self)
        site.noisy = False
        return site


@implementer(smtp.IMessage)
class _Mail:
    """One mail that comes in."""

    def __init__(self, server: MailReceiver) -> None:
        self._server = server
        self._lines: list[bytes] = []

    def lineReceived(self, line: bytes) -> None:
        """Collect."""
        self._lines.append(line)

    def eomReceived(self) -> Deferred[None]:
        """Keep it."""
        self._server.mails.append(message_from_bytes(b"\n".join(self._lines)))
        return succeed(None)

    def connectionLost(self) -> None:
        """Forget it."""


@implementer(smtp.IMessageDelivery)
class _Delivery:
    """Takes mails for all recipients but those whose name is C{nobody}."""

    def __init__(self, server: MailReceiver) -> None:
        self._server = server

    def receivedHeader(self, helo: Any, origin: Any, recipients: Any) -> bytes:
        """Return the header of the server."""
        return b"Received: by the test"

    def validateFrom(self, helo: Any, origin: Any) -> Any:
        """Take any sender."""
        return origin

    def validateTo(self, user: Any) -> Any:
        """Decline nobody."""
        if user.dest.local == b"nobody":
            raise smtp.SMTPBadRcpt(user)
        self._server.recipients.append(str(user.dest))
        return lambda: _Mail(self._server)


@implementer(IRealm)
class _Realm:
    def __init__(self, server: MailReceiver) -> None:
        self._server = server

    def requestAvatar(self, avatarId: Any, mind: Any, *interfaces: Any) -> Any:
        """Note who logged in."""
        self._server.users.append(avatarId)
        return smtp.IMessageDelivery, _Delivery(self._server), lambda: None


class MailReceiver(ServerFactory):
    """
    An SMTP server.

    @ivar mails: those that it took; C{recipients} are the accepted addresses, C{users} those that logged in.
    """

    noisy = False

    def __init__(self, context: Any = None, user: str = "", password: str = "") -> None:
        """@param context: for STARTTLS. @param user: who must log in; empty: nobody needs to."""
        self._context = context
        self._portal: Portal | None = None
        if user:
            checker = InMemoryUsernamePasswordDatabaseDontUse(**{user: password.encode()})
            checker.users = {user.encode(): password.encode()}
            self._portal = Portal(_Realm(self), [checker])
        self.mails: list[Message] = []
        self.recipients: list[str] = []
        self.users: list[bytes] = []

    def buildProtocol(self, addr: object) -> Any:
        """Return the server's side of a connection."""
        challengers = {b"LOGIN": LOGINCredentials, b"PLAIN": PLAINCredentials} if self._portal else {}
        session: Any = smtp.ESMTP(challengers, self._context)
        session.factory = self
        session.portal = self._portal
        session.timeout = None
        if self._portal is None:
            session.delivery = _Delivery(self)
        return session
