"""The API on real sockets: plain, over TLS, with client certificates, and at its end."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from typing import Any

from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from smartgo.ops.web import httpsession
from tests.ops.live import TOKEN, Live
from tests.remoting.certificates import Authority


def ask(
    live: Live, path: str, token: str = "", context: ssl.SSLContext | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Ask as a program does, in a thread; return status, body and headers."""
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=60)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", live.port, timeout=60, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        content = answer.read()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, json.loads(content) if "json" in headers.get("content-type", "") else content, headers
    finally:
        connection.close()


class ServedTests(TestCase):
    """A node on real sockets."""

    timeout = 300

    def folder(self) -> str:
        """A folder of our own."""
        path: str = os.path.abspath(self.mktemp())
        os.makedirs(path)
        return path

    async def live(self, **settings: str) -> Live:
        """Start a node; it is stopped after the test."""
        live = Live(self.folder(), **settings)
        self.addCleanup(live.stop)
        await live.start()
        return live

    async def test_plain(self) -> None:
        """The API of a node tells of the node it runs in."""
        live = await self.live()
        status, found, _ = await deferToThread(ask, live, "/api/v1/brokers", TOKEN)
        self.assertEqual((status, found["items"][0]["name"]), (200, "broker-a"))
        status, found, _ = await deferToThread(ask, live, "/api/v1/config?table=broker&q=brokerName", TOKEN)
        self.assertEqual((found["items"][0]["value"], found["items"][0]["origin"]), ("broker-a", "flag"))
        status, found, _ = await deferToThread(ask, live, "/api/v1/ready")
        self.assertEqual((status, found["ready"]), (200, True))
        status, found, headers = await deferToThread(ask, live, "/metrics", TOKEN)
        self.assertEqual(status, 200)
        self.assertIn("text/plain", headers["content-type"])
        self.assertIn(b"smartgo_", found)

    async def test_refused_whole(self) -> None:
        """Who sends too much still reads why: the answer is not lost with the connection."""
        self.patch(httpsession, "_LINGER_SECONDS", 60.0)
        live = await self.live()

        def send() -> bytes:
            with socket.create_connection(("127.0.0.1", live.port), timeout=60) as connection:
                head = (
                    f"POST /api/v1/topics HTTP/1.1\r\nHost: 127.0.0.1:{live.port}\r\nContent-Length: 10000000\r\n\r\n"
                )
                connection.sendall(head.encode())
                found = b""
                try:
                    for _ in range(100):
                        connection.sendall(b" " * 65536)
                except OSError:
                    pass
                while not found.endswith(b"}") and (data := connection.recv(65536)):
                    found += data
                return found

        found = await deferToThread(send)
        self.assertIn(b"HTTP/1.1 413 ", found)

    async def test_tls(self) -> None:
        """With a certificate nothing but HTTPS is spoken, 1.2 or newer, and cookies are Secure."""
        authority = Authority()
        folder = self.folder()
        settings = certificates(folder, authority)
        live = await self.live(**settings)
        context = ssl.create_default_context(cadata=authority.pem.decode())
        status, _, _ = await deferToThread(ask, live, "/api/v1/topics", TOKEN, context)
        self.assertEqual(status, 200)
        status, found, _ = await deferToThread(ask, live, "/api/v1/health")
        self.assertEqual((status, "use https://" in str(found)), (400, True))
        old = ssl.create_default_context(cadata=authority.pem.decode())
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(OSError):
            await deferToThread(ask, live, "/api/v1/health", "", old)

        def login() -> str:
            connection = http.client.HTTPSConnection("127.0.0.1", live.port, timeout=60, context=context)
            body = json.dumps({"token": TOKEN})
            connection.request("POST", "/api/v1/session", body, {"Content-Type": "application/json"})
            return connection.getresponse().getheader("Set-Cookie") or ""

        self.assertIn("Secure", await deferToThread(login))

    async def test_client_certificate(self) -> None:
        """A client certificate of our authority is good for the scope that the settings name; none is not (X10)."""
        authority = Authority()
        folder = self.folder()
        settings = certificates(folder, authority)
        settings |= {
            "tls.server.need.client.auth": "optional",
            "tls.server.trustCertPath": os.path.join(folder, "ca.pem"),
            "opsCertificateScope": "read",
        }
        live = await self.live(**settings)
        certificate, key = authority.issue("ci")
        write(os.path.join(folder, "ci.pem"), certificate)
        write(os.path.join(folder, "ci.key"), key)
        shown = ssl.create_default_context(cadata=authority.pem.decode())
        shown.load_cert_chain(os.path.join(folder, "ci.pem"), os.path.join(folder, "ci.key"))
        status, found, _ = await deferToThread(ask, live, "/api/v1/session", "", shown)
        self.assertEqual((found["name"], found["scopes"]), ("certificate ci", ["read"]))
        status, _, _ = await deferToThread(ask, live, "/api/v1/topics", "", shown)
        self.assertEqual(status, 200)
        status, _, _ = await deferToThread(ask, live, "/api/v1/config", "", shown)
        self.assertEqual(status, 403)
        bare = ssl.create_default_context(cadata=authority.pem.decode())
        status, _, _ = await deferToThread(ask, live, "/api/v1/topics", "", bare)
        self.assertEqual(status, 401)


def certificates(folder: str, authority: Authority) -> dict[str, str]:
    """Write a certificate for the node; return the settings that name it, for its port and towards itself."""
    certificate, key = authority.issue("127.0.0.1")
    write(os.path.join(folder, "ca.pem"), authority.pem)
    write(os.path.join(folder, "node.pem"), certificate)
    write(os.path.join(folder, "node.key"), key)
    return {
        "tls.server.mode": "permissive",
        "tls.server.certPath": os.path.join(folder, "node.pem"),
        "tls.server.keyPath": os.path.join(folder, "node.key"),
        "tls.client.trustCertPath": os.path.join(folder, "ca.pem"),
    }


def write(path: str, data: bytes) -> None:
    """Write a file that nobody else reads."""
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
