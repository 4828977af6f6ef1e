"""The openssl commands of docs/security.rst, run; smartgo uses what they make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.case import PORTS
from tests.node.test_notify import ROOT

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

    def test_recipe(self) -> None:
        """A node takes the certificates; a client with a certificate is served, one without is not."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        commands, settings = blocks()
        made = subprocess.run(["sh", "-e"], input=commands, text=True, cwd=folder, capture_output=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        port = PORTS.take(5)
        smartgo = [sys.executable, "-m", "smartgo.cli.main"]
        command = [*smartgo, "dev", "--data", "data", "--listen", str(port + 3), "--registry-listen", str(port)]
        command += ["--ops", "off", "--set", "mappedFileSizeCommitLog=1MiB"]
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
        asked = [*smartgo, "topic", "ls", "-r", f"127.0.0.1:{port}", "--ca", "ca.pem"]
        for words, status in (["--cert", "client.pem", "--cert-key", "client-key.pem"], 0), ([], 75):
            done = subprocess.run([*asked, *words], cwd=folder, env=environment, capture_output=True, check=False)
            self.assertEqual(done.returncode, status, done.stderr)
