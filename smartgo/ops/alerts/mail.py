"""
Bring messages to a receiver by mail, with Twisted's SMTP client.

Importing Twisted's module asks the name service for this machine's name: only those who send mail import this one.
"""

from __future__ import annotations

from email.message import EmailMessage
from email.utils import formatdate
from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.error import ConnectError, ConnectingCancelledError, ConnectionClosed
from twisted.mail.smtp import ESMTPSender, ESMTPSenderFactory, SMTPClientError
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from smartgo.config.receivers import AlertReceiver
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SmartgoError
from smartgo.net.tls import ClientTLS, readable
from smartgo.ops.alerts.messages import NoticeOrigin, text, title
from smartgo.ops.alerts.notices import Batch
from smartgo.ops.alerts.senders import NotDelivered, resolve

TIMEOUT: Final = 30.0
"""Seconds for one mail, from the connection to the server's answer."""

_SUBJECT: Final = 200  # characters
_GOODBYE: Final = 3.0  # seconds that a server may take to close the connection


def mail_of(receiver: AlertReceiver, batch: Batch, origin: NoticeOrigin, now_ms: int, id_: str) -> bytes:
    """Return a message as a mail, with C{\\n} at the ends of its lines."""
    mail = EmailMessage()
    mail["From"] = receiver.sender
    mail["To"] = ", ".join(receiver.to)
    mail["Subject"] = title(batch, origin)[:_SUBJECT]
    mail["Date"] = formatdate(now_ms / 1000)
    mail["Message-ID"] = id_
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's absence note answers it
    mail.set_content(text(batch, origin), charset="utf-8", cte="quoted-printable")
    return mail.as_bytes()


class _Session(ESMTPSender):
    """
    A session that keeps no log of what it says: that has the password.

    @ivar closed: fires when the connection is closed.
    """

    debug = False

    def connectionMade(self) -> None:
        """Begin."""
        self.closed: Deferred[None] = Deferred()
        super().connectionMade()

    def connectionLost(self, reason: Any = None) -> None:
        """Report the end of the connection to the factory, as a connector would."""
        super().connectionLost(reason)
        factory: Any = self.factory
        factory.clientConnectionLost(None, reason)
        self.closed.callback(None)


class _SessionFactory(ESMTPSenderFactory):
    """Makes the session of one mail."""

    protocol = _Session
    noisy = False


class MailSender:
    """Mails messages to the addresses of one receiver."""

    def __init__(self, env: IEnvironment, receiver: AlertReceiver, origin: NoticeOrigin) -> None:
        """@raise SettingError: the file of authorities cannot be read."""
        self._env = env
        self._receiver = receiver
        self._origin = origin
        self._tls = ClientTLS(env, receiver.ca or None)

    async def send(self, batch: Batch) -> str:
        """Send a mail. @raise NotDelivered: the server did not take it, or cannot be reached."""
        receiver = await resolve(self._env, self._receiver)
        id_ = f"<{self._env.random.token(12).hex()}@{receiver.sender.rpartition('@')[2]}>"
        mail = mail_of(receiver, batch, self._origin, self._env.clock.wall_ms(), id_)
        taken: Deferred[Any] = Deferred()
        sending = Deferred.fromCoroutine(self._deliver(receiver, self._session(receiver, mail, taken), taken))
        sending.addTimeout(TIMEOUT, self._env.clock)
        try:
            accepted, recipients = await sending
        except (TookTooLong, ConnectingCancelledError):
            raise NotDelivered(f"{receiver.server}: no answer within {TIMEOUT:g} s") from None
        except SMTPClientError as error:
            raise NotDelivered(f"{receiver.server}: {_words(error)}", 500 <= error.code < 600) from None
        except (ConnectError, ConnectionClosed, OSError, SmartgoError) as error:
            reason = str(readable(Failure(error)).value).rstrip(".")
            raise NotDelivered(f"{receiver.server}: {reason}") from None
        declined = [f"{_text(one)} ({code} {_text(why)})" for one, code, why in recipients if not 200 <= code < 300]
        said = f"{receiver.server} took the mail for {accepted} of {len(recipients)} recipients"
        return f"{said}; declined: {', '.join(declined)}" if declined else said

    def _session(self, receiver: AlertReceiver, mail: bytes, taken: Deferred[Any]) -> _SessionFactory:
        host, _ = receiver.address
        return _SessionFactory(
            receiver.user.encode() or None,
            receiver.password.encode() or None,
            receiver.sender,
            [to.encode("ascii") for to in receiver.to],
            BytesIO(mail),
            taken,
            retries=0,
            contextFactory=self._tls.creator(host) if receiver.tls == "starttls" else None,
            heloFallback=receiver.tls == "off" and not receiver.user,
            requireAuthentication=bool(receiver.user),
            requireTransportSecurity=receiver.tls == "starttls",
        )

    async def _deliver(self, receiver: AlertReceiver, session: _SessionFactory, taken: Deferred[Any]) -> Any:
        """Connect, and return when the server took the mail and the connection is closed."""
        host, port = receiver.address
        factory: Any = session
        if receiver.tls == "implicit":
            factory = TLSMemoryBIOFactory(self._tls.creator(host), True, session, self._env.clock)
        connection = await self._env.network.connect(host, port, factory, TIMEOUT)
        closed = (connection.wrappedProtocol if receiver.tls == "implicit" else connection).closed
        try:
            result = await taken
            closed.addTimeout(_GOODBYE, self._env.clock).addErrback(lambda failure: failure.trap(TookTooLong))
            await closed
            return result
        finally:
            session.sendFinished = True
            connection.transport.abortConnection()


def _words(error: SMTPClientError) -> str:
    """Return the server's answer, without the log of the session that Twisted's text has."""
    code = f"{error.code} " if error.code > 0 else ""
    return f"{code}{_text(error.resp)}".replace("\n", " ")


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
