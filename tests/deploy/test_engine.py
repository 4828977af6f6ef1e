"""The image and the compose file, built and run by a container engine."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.rounds import until
from tests.deploy.client import SOON, Client
from tests.deploy.engine import Engine, unavailable

COMMAND_LINE = (sys.executable, "-c", "from smartgo.cli.main import main; main()")
HASH = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
"""Of the token C{secret}."""
OVERRIDES = """services:
  registry-1: &node
    ulimits: {{nofile: {0}, nproc: {0}}}
  registry-2: *node
  broker-a: *node
  broker-b: *node
  broker-a-slave: *node
  console: *node
"""
"""A machine may give fewer files and processes than the compose file asks for."""


class EngineCase(SynchronousTestCase):
    def setUp(self) -> None:
        """An engine with the image."""
        self.engine = Engine(os.path.abspath(self.mktemp()))
        self.addCleanup(self.engine.end)

    def client(self, registry: str = "127.0.0.1:9876") -> Client:
        """Our command line outside of the containers."""
        return Client(partial(self.engine.run, "env", f"NAMESRV_ADDR={registry}", *COMMAND_LINE))

    skip = unavailable()


class ImageTests(EngineCase):
    def test_image(self) -> None:
        """
        The image runs without rights on a root that nobody can write to, tells its health, ends in order by SIGTERM,
        and has its messages on the volume.
        """
        ways = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")
        podman = self.engine.podman
        self.engine.start("all", *ways, "--network=host", "--volume=all:/var/lib/smartgo", "smartgo")
        until(lambda: self.engine.healthy("all"), SOON, "the container is healthy")
        self.assertEqual(podman("exec", "all", "id", "-u").strip(), "10001")
        self.assertEqual(podman("exec", "all", "ls", "-A", "/var/lib/smartgo").split(), ["store"])
        status = podman("exec", "all", "cat", "/proc/1/status")
        self.assertIn("CapEff:\t0000000000000000\n", status)
        self.assertIn("NoNewPrivs:\t1\n", status)
        self.client().send(3)
        self.assertEqual(self.client().consumed("before", 3), 3)
        podman("kill", "--signal=STOP", "all")
        self.assertFalse(self.engine.healthy("all"))
        podman("kill", "--signal=CONT", "all")
        until(lambda: self.engine.healthy("all"), SOON, "the container is healthy again")
        podman("stop", "--time=60", "all")
        self.assertEqual(podman("inspect", "--format={{.State.Status}} {{.State.ExitCode}}", "all"), "exited 0\n")
        self.assertIn("Server Shut Down", podman("logs", "all"))
        self.assertFalse(self.engine.healthy("all"))
        podman("rm", "all")
        self.engine.start("again", *ways, "--network=host", "--volume=all:/var/lib/smartgo", "smartgo")
        until(lambda: self.engine.healthy("again"), SOON, "the second container is healthy")
        self.assertEqual(self.client().consumed("after", 3), 3)


class ComposeTests(EngineCase):
    def setUp(self) -> None:
        """Skip where the program that reads compose files is absent."""
        if shutil.which("podman-compose") is None:
            raise SkipTest("not installed: podman-compose")
        super().setUp()

    def test_cluster(self) -> None:
        """
        The compose file is a cluster that clients of this machine reach by the published ports: each part is healthy,
        the slave has the master's messages when it is gone, and the console knows itself by its published address.
        """
        overrides = os.path.join(self.engine.source, "overrides.yaml")
        with open(overrides, "w", encoding="utf-8") as file:
            file.write(OVERRIDES.format(4096))
        # podman-compose 1.0 makes networks without the addresses that are asked for, and has no names for projects.
        network = ("--subnet=172.31.99.0/24", "--gateway=172.31.99.1", "deploy_cluster")
        self.engine.podman("network", "create", *network)
        files = ("-f", "docs/deploy/compose.yaml", "-f", overrides)
        ways = "--podman-run-args=--cgroups=disabled --pull=never"
        tokens = f"SMARTGO_OPS_TOKENS=ops:admin:{HASH}"
        compose = ("podman-compose", *files, "--project-name=deploy", ways)
        self.engine.run("env", tokens, *compose, "up", "--detach", "--no-build")
        parts = ("registry-1", "registry-2", "broker-a", "broker-b", "broker-a-slave", "console")
        for part in parts:
            until(partial(self.engine.healthy, f"deploy_{part}_1"), SOON, f"{part} is healthy")
        listed = self.client("127.0.0.1:9877").smartgo("cluster", "ls")
        for port in (10911, 10921, 10931):
            self.assertIn(f" 127.0.0.1:{port} ", listed)
        client = self.client()
        client.smartgo("topic", "create", "Orders", "-n", "4")
        client.send(40)
        self.assertEqual(client.consumed("before", 40), 40)
        ask = ("curl", "--silent", "--show-error", "--fail", "--header", "Authorization: Bearer secret")
        self.assertIn("Orders", self.engine.run(*ask, "http://127.0.0.1:10913/api/v1/topics"))
        client.mirrored("127.0.0.1:10931")
        self.engine.podman("stop", "--time=60", "deploy_broker-a_1")
        self.assertEqual(client.consumed("after", 40), 40)
