"""The openssl commands of docs/security.rst, run; smartgo uses what they make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.case import PORTS
from tests.node.test_notify import ROOT

OWN = ("--cert", "client.pem", "--cert-key", "client-key.pem")
PAGE = os.path.join(ROOT, "docs", "security.rst")


def blocks() -> tuple[str, list[str]]:
    """The commands, and the settings, as the page has them."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    commands = re.search(r"::\n\n((?:    .*\n)*    umask(?:.*\n)(?:    .*\n)*)", text)
    settings = re.search(r"::\n\n((?:    tls\..*\n)+)", text)
    assert commands is not None
    assert settings is not None
    return commands[1], settings[1].split()


class CertificateTests(SynchronousTestCase):
    if shutil.which("openssl") is None:
        skip = "there is no openssl"

    def started(self, rules: str = "") -> Callable[..., subprocess.CompletedProcess[bytes]]:
        """
        Start a node with the certificates; return what runs a command against it, without a certificate.

        @param rules: of its access control; empty for none.
        """
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        commands, settings = blocks()
        made = subprocess.run(["sh", "-e"], input=commands, text=True, cwd=folder, capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        port = PORTS.take(5)
        smartgo = [sys.executable, "-m", "smartgo.cli.main"]
        command = [*smartgo, "dev", "--data", "data", "--listen", str(port + 3), "--registry-listen", str(port)]
        command += ["--ops", "off", "--set", "mappedFileSizeCommitLog=1MiB"]
        if rules:
            os.mkdir(os.path.join(folder, "conf"))
            with open(os.path.join(folder, "conf", "plain_acl.yml"), "w", encoding="utf-8") as file:
                file.write(rules)
            settings += ["aclEnable=true", f"aclPath={folder}/conf"]
        for setting in settings:
            command += ["--set", setting]
        environment = {**os.environ, "PYTHONPATH": ROOT, "XDG_CONFIG_HOME": folder}
        environment.pop("NAMESRV_ADDR", None)
        node = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(node.communicate)
        self.addCleanup(node.terminate)
        assert node.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("Ready")) and (line := node.stdout.readline()):
            said.append(line)
        self.assertTrue(said and said[-1].startswith("Ready"), said)
        at = ("-r", f"127.0.0.1:{port}", "--ca", "ca.pem")

        def run(*words: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                [*smartgo, *words, *at], cwd=folder, env=environment, capture_output=True, check=False
            )

        return run

    def test_recipe(self) -> None:
        """A node takes the certificates; a client with a certificate is served, one without is not."""
        run = self.started()
        for words, status in (OWN, 0), ((), 75):
            done = run("topic", "ls", *words)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_account(self) -> None:
        """With access control the certificate is the account that names it; a command without a key has its rights."""
        run = self.started(
            "accounts:\n- {accessKey: the-client, secretKey: the-client-secret, certificate: CN=client-a, "
            "topicPerms: [orders=PUB]}\n"
        )
        for topic, status, said in (("orders", 0, b""), ("other", 77, b"defaultTopicPerm of accessKey=the-client")):
            done = run("send", topic, "hello", *OWN)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(said, done.stderr)
