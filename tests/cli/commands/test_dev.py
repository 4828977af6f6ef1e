"""Tests of C{smartgo dev}."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import click
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.commands.dev import configured, other_ports
from smartgo.cli.support.embedded import EmbeddedNode
from smartgo.core import CORE
from smartgo.errors import SettingError
from tests.cli.case import ROOT, smartgo
from tests.fakes import FakeEnvironment
from tests.interop.case import PORTS


class DevTests(SynchronousTestCase):
    def test_settings(self) -> None:
        """All data lie below one directory, in files of 64 MiB; options and settings have the last word."""
        env = FakeEnvironment()
        found = configured(env, "/d", "21911", "127.0.0.1:29876", None, ("flushDiskType=SYNC_FLUSH",))
        self.assertEqual(found.store.store_path_root_dir, "/d/store")
        self.assertEqual(found.registry.kv_config_path, "/d/registry/kvConfig.json")
        self.assertEqual(found.store.mapped_file_size_commit_log, 64 << 20)
        self.assertEqual((found.broker.listen_port, found.registry.listen_port), (21911, 29876))
        self.assertEqual(found.store.flush_disk_type, "SYNC_FLUSH")

    def test_alone(self) -> None:
        """C{NAMESRV_ADDR} does not have the broker join the cluster that commands ask; settings do."""
        env = FakeEnvironment()
        env.host.variables["NAMESRV_ADDR"] = "10.0.0.1:9876"
        self.assertEqual(configured(env, "/d").broker.namesrv_addr, ())
        given = configured(env, "/d", settings=("namesrvAddr=10.0.0.2:9876",))
        self.assertEqual(given.broker.namesrv_addr, ("10.0.0.2:9876",))

    def test_old_store(self) -> None:
        """A store that is there keeps the size of its files."""
        env = FakeEnvironment()
        env.files.make_directories("/d/store/commitlog")
        env.files.create("/d/store/commitlog/00000000000000000000", b"x")
        self.assertIsNone(configured(env, "/d").store.mapped_file_size_commit_log)

    def test_wrong(self) -> None:
        """A file that is not there, and a setting without a value, are refused."""
        self.assertRaises(SettingError, configured, FakeEnvironment(), "/d", config="/nothing.toml")
        self.assertRaises(click.UsageError, configured, FakeEnvironment(), "/d", settings=("x",))


class OtherPortsTests(SynchronousTestCase):
    def told(self, *settings: str) -> str:
        """Return what is told of the ports of a broker that listens on 21911."""
        env = FakeEnvironment()
        given = ("registry.listenPort=29876", "broker.listenPort=21911", *settings)
        return other_ports(EmbeddedNode(env, configured(env, "/d", settings=given), lambda _: None))

    def test_ports(self) -> None:
        """All ports of the broker are named with who uses them, and no others."""
        self.assertEqual(self.told(), " (also 21912 for slaves, 21909 for clients with vipChannelEnabled)")
        self.assertEqual(
            self.told("fastPort=20000", "haListenPort=20001"),
            self.told().replace("21912", "20001").replace("21909", "20000"),
        )
        self.assertEqual(self.told("fastPort=off"), " (also 21912 for slaves)")


class DevProcessTests(SynchronousTestCase):
    def test_dev(self) -> None:
        """The broker in the foreground says where it is and what it keeps; ctrl-C ends it with 0, its messages stay."""
        first = PORTS.take(4)  # the broker takes the one above its own, too
        ports = [first + 1, first, first + 3]
        data = self.mktemp()
        command = [sys.executable, "-m", "smartgo.cli.main", "dev", "--data", data]
        command += ["--listen", str(ports[0]), "--registry-listen", str(ports[1]), "--ops", f"127.0.0.1:{ports[2]}"]
        command += ["--set", "mappedFileSizeCommitLog=1MiB", "--set", "fastPort=false"]
        registry = f"127.0.0.1:{ports[1]}"
        for round_number in range(2):
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
            )
            try:
                assert process.stdout is not None
                said = b""
                while b"Ready" not in said and (line := process.stdout.readline()):
                    said += line
                for word in (
                    registry,
                    f"127.0.0.1:{ports[0]} (also {ports[0] + 1} for slaves)",
                    data,
                    "ASYNC_FLUSH",
                    f"core        {CORE}",
                ):
                    self.assertIn(word.encode(), said)
                self.assertEqual(smartgo("send", "T", f"round {round_number}", "-r", registry).returncode, 0)
                token = os.path.join(data, f"cli-{ports[2]}.token")
                self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
                link = smartgo("console", "--api", f"http://127.0.0.1:{ports[2]}", "--token-file", token)
                self.assertIn(f"http://127.0.0.1:{ports[2]}/#login=".encode(), link.stdout, link.stderr)
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[2]}/metrics", timeout=60) as metrics:
                    self.assertIn(b"\nsmartgo_reactor_stalls_total ", metrics.read())
                if round_number:
                    found = smartgo("consume", "T", "--from", "first", "--count", "2", "-o", "json", "-r", registry)
                    bodies = {json.loads(line)["body"] for line in found.stdout.splitlines()}
                    self.assertEqual(bodies, {"round 0", "round 1"}, found.stderr)
                    listed = smartgo("topic", "ls", "-o", "json", "-r", registry)
                    self.assertEqual([row["topic"] for row in json.loads(listed.stdout)], ["T"])
                    again = smartgo("topic", "create", "T", "--queues", "1", "-r", registry)
                    self.assertEqual((again.returncode, b"--change" in again.stderr), (78, True), again.stderr)
                    self.assertEqual(
                        smartgo("topic", "create", "T", "-n", "8", "--change", "-r", registry).returncode, 0
                    )
            finally:
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGTERM)  # from now on one more changes nothing
                _, errors = process.communicate(timeout=240)
            self.assertEqual((process.returncode, errors), (0, b""))
            self.assertFalse(os.path.exists(token))

    def test_dev_file(self) -> None:
        """A file in place of the directory of data ends with 78 and one sentence."""
        path = self.mktemp()
        with open(path, "wb"):
            pass
        for words in ([], ["--masters", "2"]):
            result = smartgo("dev", "--data", path, *words)
            self.assertEqual((result.returncode, result.stderr.count(b"\n")), (78, 1), result.stderr)
            self.assertIn(b"Not a directory", result.stderr)

    def test_dev_port(self) -> None:
        """A port in use ends with 75 and one sentence, which has the options for others."""
        first = PORTS.take(4)
        with socket.create_server(("127.0.0.1", first)):
            for words in ([], ["--registries", "2"]):
                result = smartgo(
                    "dev", "--data", self.mktemp(), "--listen", str(first + 1), "--registry-listen", str(first), *words
                )
                told = result.stderr.decode()
                self.assertEqual((result.returncode, told.count("\n")), (75, 1), told)
                for word in (f"port {first} of 127.0.0.1", "--registry-listen", "--listen", "NAMESRV_ADDR=", "-r "):
                    self.assertIn(word, told)

    def test_dev_store(self) -> None:
        """A store that cannot be opened ends with 74 and one sentence."""
        data, first = self.mktemp(), PORTS.take(4)
        os.makedirs(os.path.join(data, "store", "commitlog"))
        with open(os.path.join(data, "store", "commitlog", "0000000000000001*"), "wb"):
            pass
        ports = ["--listen", str(first + 1), "--registry-listen", str(first), "--ops", "off"]
        result = smartgo("dev", "--data", data, *ports)
        told = result.stderr.decode()
        self.assertEqual((result.returncode, told.count("smartgo: "), told.count("Traceback")), (74, 1, 0), told)
        self.assertIn("0000000000000001* is not a CommitLog file", told)
