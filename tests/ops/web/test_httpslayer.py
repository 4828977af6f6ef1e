"""HTTPS as programs of others speak it: each offers protocols by ALPN in its own way."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from shutil import which
from typing import Final

from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from tests.ops.live import TOKEN, Live
from tests.ops.test_service import certificates
from tests.remoting.certificates import Authority

CURL: Final = which("curl")
OPENSSL: Final = which("openssl")
SECONDS: Final = 60


class HttpsTests(TestCase):
    """A node with a certificate, and programs that know its authority."""

    timeout = 300

    async def live(self) -> Live:
        """Start a node; it is stopped after the test."""
        self.folder: str = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)
        self.authority = Authority()
        live = Live(self.folder, **certificates(self.folder, self.authority))
        self.trust = os.path.join(self.folder, "ca.pem")
        self.addCleanup(live.stop)
        await live.start()
        return live

    async def run_program(self, *words: str, given: str = "", **variables: str) -> str:
        """Run a program; return what it wrote."""
        done = await deferToThread(
            subprocess.run,
            words,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, **variables},
        )
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        said: str = done.stdout + done.stderr
        return said

    async def test_curl(self) -> None:
        """curl gets an answer, whatever version of HTTP it would like best."""
        if CURL is None:
            self.skipTest("curl is not installed")
        live = await self.live()
        for more in ((), ("--http1.1",), ("--no-alpn",), ("--tls-max", "1.2")):
            said = await self.run_program(
                CURL, "-sS", "--cacert", self.trust, *more, "-H", f"Authorization: Bearer {TOKEN}", "-w",
                " %{http_code} %{http_version}", f"{live.url}/api/v1/brokers",
            )  # fmt: skip
            self.assertIn("broker-a", said)
            self.assertTrue(said.endswith(" 200 1.1"), said)

    async def test_urllib(self) -> None:
        """Python's urllib gets an answer with the context that it makes by itself, which offers http/1.1."""
        live = await self.live()
        program = (
            "import sys, urllib.request\n"
            "with urllib.request.urlopen(sys.argv[1], timeout=50) as answer:\n    print(answer.status)\n"
        )
        said = await self.run_program(
            sys.executable, "-c", program, f"{live.url}/api/v1/health", SSL_CERT_FILE=self.trust, NO_PROXY="127.0.0.1"
        )
        self.assertEqual(said, "200\n")

    async def test_openssl(self) -> None:
        """openssl s_client is told http/1.1 among others, with TLS 1.2 and 1.3, and nothing without forward secrecy."""
        if OPENSSL is None:
            self.skipTest("openssl is not installed")
        live = await self.live()
        for version in ("-tls1_2", "-tls1_3"):
            said = await self.run_program(
                OPENSSL, "s_client", "-connect", f"127.0.0.1:{live.port}", "-CAfile", self.trust,
                "-verify_return_error", version, "-alpn", "h2,http/1.1",
            )  # fmt: skip
            self.assertIn("ALPN protocol: http/1.1", said)
            self.assertIn("Verify return code: 0 (ok)", said)
            if version == "-tls1_2":
                self.assertRegex(said, "Cipher +: ECDHE-ECDSA-.*GCM-SHA")

    async def test_every_port(self) -> None:
        """Clients that offer protocols get through on the ports of registry and broker, where none is chosen."""
        live = await self.live()
        broker = int(live.node.broker.rpartition(":")[2])

        def offer(port: int, offered: list[str]) -> str | None:
            context = ssl.create_default_context(cadata=self.authority.pem.decode())
            context.set_alpn_protocols(offered)
            with (
                socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
            ):
                return secure.selected_alpn_protocol()

        for offered in (["http/1.1"], ["h2", "http/1.1"], ["h2"], ["redis"]):
            for port in (live.registry_port, broker):
                self.assertIsNone(await deferToThread(offer, port, offered))
            chosen = "http/1.1" if "http/1.1" in offered else None
            self.assertEqual(await deferToThread(offer, live.port, offered), chosen)
