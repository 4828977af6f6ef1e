"""Tests of L{smartgo.cli.support.session}."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration import brokers
from tests.broker.fakecluster import BROKER
from tests.cli.case import ROOT, ClusterCase
from tests.interop.case import PORTS
from tests.interop.certificates import Certificates


class RegistryAddressTests(ClusterCase):
    def test_broker(self) -> None:
        """A broker's address in place of a registry's is named as such."""
        for words in (("topic", "ls"), ("send", "T", "x"), ("group", "ls"), ("cluster", "ls")):
            said = self.refused(*words, "-r", BROKER, status=69)
            self.assertIn(f"{BROKER} is a broker, not a registry; give the address of a registry", said)

    def test_registry(self) -> None:
        """A request that a broker does not support keeps its own sentence."""
        self.patch(brokers, "RequestCode", SimpleNamespace(DELETE_EXPIRED_COMMITLOG=9999))
        said = self.refused("cluster", "clean", "log", "broker-a", "--yes", status=69)
        self.assertNotIn("not a registry", said)


class TLSTests(SynchronousTestCase):
    """The command over TLS, in processes of its own."""

    def setUp(self) -> None:
        """A registry and a broker that speak nothing but TLS."""
        self.directory = os.path.abspath(self.mktemp())
        self.made = Certificates.make(self.directory)
        first = PORTS.take(4)  # the broker takes those beside its own, too
        ports = [first + 1, first]
        self.registry = f"127.0.0.1:{ports[1]}"
        self.api = f"https://127.0.0.1:{ports[0] + 2}"
        settings = {
            "tls.server.mode": "enforcing", "tls.server.certPath": self.made.certificate,
            "tls.server.keyPath": self.made.key, "tls.enable": "true",
            "tls.client.trustCertPath": self.made.authority,
            "fastPort": "false", "mappedFileSizeCommitLog": "1MiB",
        }  # fmt: skip
        words = [
            "dev",
            "--data",
            f"{self.directory}/data",
            "--listen",
            str(ports[0]),
            "--registry-listen",
            str(ports[1]),
        ]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        self.node = subprocess.Popen(**self.arguments(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.node.communicate)
        self.addCleanup(self.node.send_signal, signal.SIGINT)
        assert self.node.stdout is not None
        said = b""
        while b"Ready" not in said and (line := self.node.stdout.readline()):
            said += line
        self.assertIn(b"Ready", said)

    def arguments(self, *words: str) -> dict[str, Any]:
        """Return the arguments of a process that runs a command."""
        environment = {**os.environ, "PYTHONPATH": ROOT, "XDG_CONFIG_HOME": self.directory}
        environment.pop("NAMESRV_ADDR", None)
        return {"args": [sys.executable, "-m", "smartgo.cli.main", *words], "env": environment}

    def run_it(self, *words: str, status: int = 0) -> str:
        """Run a command; return what it wrote."""
        done = subprocess.run(**self.arguments(*words), capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        said: str = done.stdout + done.stderr
        return said

    def test_tls(self) -> None:
        """With the authority, as an option or in a context, all is well; without it the port says what it wants."""
        self.run_it("send", "T", "x", "-r", self.registry, "--ca", self.made.authority)
        self.run_it("context", "set", "safe", "--registry", self.registry, "--ca", self.made.authority, "--use")
        self.assertIn('"topic": "T"', self.run_it("topic", "ls", "-o", "json"))
        self.assertIn("No problem", self.run_it("doctor"))
        self.assertIn("the port requires TLS: try --tls", self.run_it("doctor", "-r", self.registry, status=1))
        for words in (("topic", "ls"), ("send", "T", "x")):
            self.assertIn("TLS is enforced here", self.run_it(*words, "-r", self.registry, status=1))
        self.run_it("topic", "ls", "-r", self.registry, "--tls", status=75)  # the system does not trust it
        rules = self.run_it("alert", "rules", "--api", self.api, "--api-ca", self.made.authority)
        self.assertIn("broker-down", rules)
        self.assertIn("TLS", self.run_it("alert", "rules", "--api", self.api, status=75))
        plain = self.api.replace("https://", "http://")
        self.assertIn("use https://", self.run_it("alert", "rules", "--api", plain, status=2))
