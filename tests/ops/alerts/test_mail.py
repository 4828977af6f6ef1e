"""Messages by mail: a real server, STARTTLS, implicit TLS, logins, what goes wrong."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from smartgo.config.receivers import AlertReceiver
from smartgo.env.real import RealEnvironment
from smartgo.ops.alerts import mail
from smartgo.ops.alerts.mail import MailSender
from smartgo.ops.alerts.messages import NoticeOrigin
from smartgo.ops.alerts.notices import Batch, Notice
from smartgo.ops.alerts.senders import NotDelivered
from tests.ops.alerts.receivers import MailReceiver, Tls, full_port

BATCH = Batch(
    [
        Notice("broker-down", "broker-ä", "critical", "firing", 0, 60_000, None, 1.0, 1.0, 60_000),
        Notice("group-late", "audit", "warning", "resolved", 0, 60_000, 90_000, 0.0, 700.0, 60_000),
    ]
)


class MailTests(TestCase):
    """A sender and a server on real sockets."""

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)
        folder = self.mktemp()
        os.mkdir(folder)
        self.tls = Tls(folder)

    def listen(self, factory: Any, implicit: bool = False) -> str:
        """Serve; return the address."""
        port = (
            self.reactor.listenSSL(0, factory, self.tls.server(), interface="127.0.0.1")
            if implicit
            else self.reactor.listenTCP(0, factory, interface="127.0.0.1")
        )
        self.addCleanup(port.stopListening)
        return f"127.0.0.1:{port.getHost().port}"

    async def send(self, server: str, **options: Any) -> str:
        """Send the batch."""
        given = {"sender": "smartgo@example.com", "to": ("ops@example.com",), "ca": self.tls.authority, **options}
        receiver = AlertReceiver(name="r", kind="smtp", server=server, **given)
        return await MailSender(self.env, receiver, NoticeOrigin("site-a")).send(BATCH)

    async def refused(self, server: str, **options: Any) -> NotDelivered:
        """Send the batch, which must fail."""
        try:
            await self.send(server, **options)
        except NotDelivered as error:
            self.assertNotIn("SECRET", str(error))
            return error
        raise AssertionError("it was delivered")

    async def test_starttls(self) -> None:
        """A mail goes by STARTTLS and a login; it says what fires, what to do, what is over."""
        server = MailReceiver(self.tls.server(), "alerts", "SECRET")
        address = self.listen(server)
        answer = await self.send(address, user="alerts", password="SECRET", to=("a@example.com", "b@example.com"))
        self.assertEqual(answer, f"{address} took the mail for 2 of 2 recipients")
        self.assertEqual((server.users, server.recipients), ([b"alerts"], ["a@example.com", "b@example.com"]))
        found = server.mails[0]
        self.assertEqual((found["From"], found["To"]), ("smartgo@example.com", "a@example.com, b@example.com"))
        self.assertEqual(found["Auto-Submitted"], "auto-generated")
        self.assertIsNotNone(found["Message-ID"])
        text: Any = found.get_payload(decode=True)
        self.assertIn("CRITICAL broker-down broker-ä, since 1970-01-01 00:00:00 UTC", text.decode())
        self.assertIn("Runbook: docs/alerts.rst#alert-broker-down", text.decode())
        self.assertIn("RESOLVED group-late audit, at worst 700 s", text.decode())

    async def test_implicit(self) -> None:
        """The whole connection may be TLS."""
        server = MailReceiver(None, "alerts", "SECRET")
        address = self.listen(server, implicit=True)
        await self.send(address, tls="implicit", user="alerts", password="SECRET")
        self.assertEqual((len(server.mails), server.users), (1, [b"alerts"]))

    async def test_plain(self) -> None:
        """Without TLS and without a login, where that was asked for."""
        server = MailReceiver()
        answer = await self.send(self.listen(server), tls="off", to=("a@example.com", "nobody@example.com"))
        self.assertIn("took the mail for 1 of 2 recipients; declined: nobody@example.com (550", answer)
        self.assertEqual(len(server.mails), 1)

    async def test_wrong_password(self) -> None:
        """A wrong password is a refusal; no text says it."""
        server = MailReceiver(self.tls.server(), "alerts", "another")
        error = await self.refused(self.listen(server), user="alerts", password="SECRET")
        self.assertTrue(error.refused)
        self.assertIn("535", str(error))
        self.assertEqual(server.mails, [])

    async def test_no_starttls(self) -> None:
        """A server without STARTTLS gets neither mail nor password."""
        server = MailReceiver(None, "alerts", "SECRET")
        error = await self.refused(self.listen(server), user="alerts", password="SECRET")
        self.assertIn("does not support secure communication via TLS", str(error))
        self.assertEqual((server.mails, server.users), ([], []))

    async def test_stranger(self) -> None:
        """A server whose certificate is not known gets no mail."""
        server = MailReceiver(self.tls.server())
        error = await self.refused(self.listen(server), ca="")
        self.assertIn("certificate", str(error))
        self.assertFalse(error.refused)
        self.assertEqual(server.mails, [])

    async def test_declined(self) -> None:
        """Where no recipient is accepted, the mail is not delivered."""
        error = await self.refused(self.listen(MailReceiver()), tls="off", to=("nobody@example.com",))
        self.assertIn("550", str(error))
        self.assertTrue(error.refused)

    async def test_nobody(self) -> None:
        """A port where nobody listens."""
        error = await self.refused(f"127.0.0.1:{self.env.network.free_port()}")
        self.assertIn("refused", str(error))
        self.assertFalse(error.refused)

    async def test_unreachable(self) -> None:
        """A host that lets nobody connect in time is no refusal, nor a bug of ours."""
        self.patch(mail, "TIMEOUT", 0.2)
        server = f"localhost:{full_port(self)}"
        error = await self.refused(server, tls="off")
        self.assertEqual((str(error), error.refused), (f"{server}: no answer within 0.2 s", False))

    async def test_hangs(self) -> None:
        """A server that says nothing costs a bounded time."""
        self.patch(mail, "TIMEOUT", 0.2)
        factory = Factory.forProtocol(Protocol)
        factory.noisy = False
        error = await self.refused(self.listen(factory))
        self.assertIn("no answer within 0.2 s", str(error))
