"""Messages over HTTP: a real server, TLS, secrets, what goes wrong."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from smartgo.config.receivers import AlertReceiver
from smartgo.env.real import RealEnvironment
from smartgo.errors import SettingError
from smartgo.ops.alerts import senders
from smartgo.ops.alerts.messages import NoticeOrigin
from smartgo.ops.alerts.notices import Batch, Notice
from smartgo.ops.alerts.senders import HttpSender, NotDelivered, check_secrets
from tests.fakes import FakeEnvironment
from tests.ops.alerts.receivers import HttpReceiver, Tls, full_port

BATCH = Batch([Notice("group-late", "audit", "warning", "firing", 1000, 2000, None, 700.0, 700.0, 2000)])
ORIGIN = NoticeOrigin("site-a", "https://wiki.example.com/alerts.html")


class HttpTests(TestCase):
    """A sender and a server on real sockets."""

    def setUp(self) -> None:
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)
        self.server = HttpReceiver()
        self.port = self.listen()

    def listen(self, tls: Tls | None = None) -> int:
        """Serve; return the port."""
        site = self.server.site()
        port = (
            self.reactor.listenTCP(0, site, interface="127.0.0.1")
            if tls is None
            else self.reactor.listenSSL(0, site, tls.server(), interface="127.0.0.1")
        )
        self.addCleanup(port.stopListening)
        number: int = port.getHost().port
        return number

    def sender(self, kind: Any = "webhook", **options: Any) -> HttpSender:
        """Return a sender to the server."""
        given = {"url": f"http://127.0.0.1:{self.port}/hook?x=1", **options}
        return HttpSender(self.env, AlertReceiver(name="r", kind=kind, **given), ORIGIN)

    def send(self, sender: HttpSender) -> Deferred[str]:
        """Send the batch."""
        return Deferred.fromCoroutine(sender.send(BATCH))

    async def refused(self, sender: HttpSender) -> NotDelivered:
        """Send the batch, which must fail."""
        try:
            await sender.send(BATCH)
        except NotDelivered as error:
            return error
        raise AssertionError("it was delivered")

    async def test_posted(self) -> None:
        """The server gets one POST of JSON, signed, with a token; its answer comes back."""
        answer = await self.send(self.sender(token="SECRET", secret="sign"))
        self.assertEqual(answer, "HTTP status 200: ok")
        ((path, headers, body),) = self.server.requests
        self.assertEqual(
            (path, headers["content-type"], headers["user-agent"]), ("/hook?x=1", "application/json", "smartgo")
        )
        self.assertEqual(headers["authorization"], "Bearer SECRET")
        self.assertEqual(
            headers["x-smartgo-signature"], f"sha256={hmac.new(b'sign', body, hashlib.sha256).hexdigest()}"
        )
        self.assertEqual(json.loads(body)["alerts"][0]["subject"], "audit")

    async def test_statuses(self) -> None:
        """A refusal says what the server said; its status says whether it would refuse it again."""
        for status, final in (
            (400, True),
            (401, True),
            (404, True),
            (302, True),
            (408, False),
            (429, False),
            (503, False),
        ):
            self.server.answers = [(status, b"no \x07such hook")]
            error = await self.refused(self.sender())
            self.assertEqual((str(error), error.refused), (f"HTTP status {status}: no  such hook", final))

    async def test_judged(self) -> None:
        """DingTalk and Feishu say in the body of a 200 whether they took it."""
        self.server.answers = [(200, b'{"errcode":0,"errmsg":"ok"}'), (200, b'{"errcode":310000,"errmsg":"sign"}')]
        await self.send(self.sender("dingtalk"))
        error = await self.refused(self.sender("dingtalk"))
        self.assertEqual(str(error), 'dingtalk refused it: {"errcode":310000,"errmsg":"sign"}')
        self.server.answers = [(200, b'{"code":0}'), (200, b"<html>")]
        await self.send(self.sender("feishu"))
        self.assertEqual(str(await self.refused(self.sender("feishu"))), "HTTP status 200, but no JSON: <html>")

    async def test_long_answer(self) -> None:
        """Of an endless answer only the beginning is read."""
        self.server.answers = [(200, b"x" * 10_000_000)]
        self.assertEqual(await self.send(self.sender()), "HTTP status 200: " + "x" * 400)

    async def test_nobody(self) -> None:
        """A port where nobody listens is no refusal of the receiver."""
        error = await self.refused(self.sender(url=f"http://127.0.0.1:{self.env.network.free_port()}/"))
        self.assertIn("refused", str(error))
        self.assertFalse(error.refused)

    async def test_hangs(self) -> None:
        """A server that does not answer costs a bounded time, and no connection is left."""
        self.server.answers = [None]
        self.patch(senders, "TIMEOUT", 0.2)
        error = await self.refused(self.sender())
        self.assertEqual((str(error), error.refused), ("no answer within 0.2 s", False))

    async def test_unreachable(self) -> None:
        """A host that lets nobody connect in time is no refusal of the receiver, nor a bug of ours."""
        self.patch(senders, "TIMEOUT", 0.2)
        error = await self.refused(self.sender(url=f"http://localhost:{full_port(self)}/"))
        self.assertEqual((str(error), error.refused), ("no answer within 0.2 s", False))

    async def test_tls(self) -> None:
        """By https the certificate is checked against the authorities that are given, or the system's."""
        folder = self.mktemp()
        os.mkdir(folder)
        tls = Tls(folder)
        url = f"https://127.0.0.1:{self.listen(tls)}/"
        self.assertEqual(await self.send(self.sender(url=url, ca=tls.authority)), "HTTP status 200: ok")
        error = await self.refused(self.sender(url=url))
        self.assertEqual((str(error)[:4], error.refused), ("TLS:", False))
        self.assertEqual(len(self.server.requests), 1)

    async def test_secret_file(self) -> None:
        """A secret of a file is read for every message, so that it can be changed."""
        path = os.path.abspath(self.mktemp())
        with open(path, "w") as file:
            file.write("one\n")
        sender = self.sender(token=f"file:{path}")
        await self.send(sender)
        with open(path, "w") as file:
            file.write("two\n")
        await self.send(sender)
        self.assertEqual([one[1]["authorization"] for one in self.server.requests], ["Bearer one", "Bearer two"])
        os.remove(path)
        self.assertIn("No such file", str(await self.refused(sender)))


class SecretTests(SynchronousTestCase):
    """Secrets at the start."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def check(self, **options: str) -> None:
        """Check a receiver."""
        check_secrets(self.env, [AlertReceiver(**{"name": "r", "kind": "webhook", "url": "http://h", **options})])  # type: ignore[arg-type]

    def test_missing(self) -> None:
        """A variable that is not set, and a file that is not there, are said with their names."""
        error = self.assertRaises(SettingError, self.check, token="env:HOOK_TOKEN")
        self.assertEqual(str(error), "alertReceivers: the variable HOOK_TOKEN (token of r) is not set")
        error = self.assertRaises(SettingError, self.check, url="file:/nowhere")
        self.assertIn("alertReceivers: cannot read /nowhere (url of r)", str(error))

    def test_wrong(self) -> None:
        """What a file gives must be one line, and an address where that is needed; it is not repeated."""
        self.env.files.create("/secret", b"ftp://SECRET\n")
        error = self.assertRaises(SettingError, self.check, url="file:/secret")
        self.assertIn("r has a url that is not http://HOST", str(error))
        self.assertNotIn("SECRET", str(error))
        for content in (b"", b"two\nlines\n"):
            self.env.files.create(f"/{len(content)}", content)
            error = self.assertRaises(SettingError, self.check, token=f"file:/{len(content)}")
            self.assertIn("is empty, or is not one line of text", str(error))

    def test_there(self) -> None:
        """What is there is fine."""
        self.env.files.create("/secret", b"http://h/SECRET\n")
        self.check(url="file:/secret")
