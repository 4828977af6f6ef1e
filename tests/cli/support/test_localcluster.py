"""A cluster on this machine: its plan, its processes, and smartgo dev with several of each."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.localcluster import (
    MASTER_ROLE,
    REGISTRY_ROLE,
    SLAVE_ROLE,
    ClusterShape,
    NodePlan,
    plan,
    settings_in,
)
from smartgo.cli.support.nodes import STOP_TIMEOUT, NodeProcess, NodeProcesses
from smartgo.cli.support.running import CommandError
from smartgo.config.loading import BROKER, REGISTRY, Configuration, Surroundings, load
from smartgo.env.real import RealNetwork
from smartgo.errors import SettingError
from smartgo.node.process import PortTaken
from tests.cli.case import ROOT, smartgo
from tests.fakes import FakeEnvironment, FakePort
from tests.interop.case import PORTS

DEV = [sys.executable, "-m", "smartgo.cli.main", "dev"]


def occupy(env: FakeEnvironment, *ports: int) -> None:
    """Have somebody listen there."""
    for port in ports:
        env.network.ports[port] = cast("FakePort", None)


class PlanTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A machine."""
        self.env = FakeEnvironment()

    def plan(self, *shape: int, **more: Any) -> list[NodePlan]:
        """A plan below /d."""
        return plan(self.env, "/d", ClusterShape(*shape), **more)

    def settings(self, node: NodePlan) -> Configuration:
        """Return the configuration that a node reads from its flags."""
        tables = REGISTRY if node.role == REGISTRY_ROLE else BROKER
        return load(Surroundings("h", "/home", lambda name: None), tables, flags=node.flags)

    def test_nodes(self) -> None:
        """Registries come first, then masters, then slaves, each with its directory; a slave has its master's name."""
        found = self.plan(2, 2, 2)
        self.assertEqual(
            [(one.name, one.role) for one in found],
            [("registry-1", REGISTRY_ROLE), ("registry-2", REGISTRY_ROLE)]
            + [("broker-a", MASTER_ROLE), ("broker-b", MASTER_ROLE)]
            + [(f"broker-{letter}#{rank}", SLAVE_ROLE) for rank in (1, 2) for letter in "ab"],
        )
        self.assertEqual({one.folder for one in found}, {f"/d/{one.name.replace('#', '-slave-')}" for one in found})
        slave = self.settings(found[-1]).broker
        self.assertEqual((slave.broker_name, slave.broker_id, slave.broker_role), ("broker-b", 2, "SLAVE"))
        self.assertEqual({self.settings(one).broker.broker_id for one in found[2:4]}, {0})

    def test_settings(self) -> None:
        """Every broker knows every registry; all listen where the plan says, on ports that nobody else has."""
        found = self.plan(2, 1, 2, listen="21911", registry_listen="127.0.0.1:29876")
        self.assertEqual([one.address for one in found[:2]], ["127.0.0.1:29876", "127.0.0.1:29877"])
        self.assertEqual([one.address.rpartition(":")[2] for one in found[2:]], ["21911", "21921", "21931", "21941"])
        ports = [self.settings(one).registry.listen_port for one in found[:2]]
        for node in found[2:]:
            settings = self.settings(node)
            self.assertEqual(settings.broker.namesrv_addr, ("127.0.0.1:29876", "127.0.0.1:29877"))
            self.assertEqual(settings.store.store_path_root_dir, f"{node.folder}/store")
            self.assertEqual(settings.store.mapped_file_size_commit_log, 64 << 20)
            ports += [settings.broker.listen_port, settings.broker.fast_listen_port or 0, settings.ha_port]
        self.assertEqual(len(set(ports)), 2 + 3 * 4)
        for node in found[:2]:
            self.assertEqual(self.settings(node).registry.kv_config_path, f"{node.folder}/kvConfig.json")

    def test_free_ports(self) -> None:
        """Where nothing is asked for, ports in use are passed over, a broker's neighbours too."""
        occupy(self.env, 9876, 9878, 10911, 10922, 10929)
        found = self.plan(2, 0, 2)
        self.assertEqual([one.address.rpartition(":")[2] for one in found], ["9877", "9879", "10941", "10951"])

    def test_asked(self) -> None:
        """A port that was asked for and is in use is refused; those above it are passed over."""
        occupy(self.env, 21921)
        found = self.plan(2, 0, 1, listen="21911")
        self.assertEqual([one.address.rpartition(":")[2] for one in found[1:]], ["21911", "21931"])
        self.assertRaises(PortTaken, self.plan, 2, 0, 1, listen="21921")
        for wrong in ("0", "2", "nonsense"):
            self.assertRaises(SettingError, self.plan, 2, 0, 1, listen=wrong)
        self.assertRaises(SettingError, self.plan, 16, 16, 1, listen="65000")

    def test_flags(self) -> None:
        """A setting goes to the nodes that know it; one that is each node's own is refused, and one nobody knows."""
        flags = {"flushDiskType": "SYNC_FLUSH", "brokerRole": "SYNC_MASTER", "orderMessageEnable": "true"}
        registry, master, slave = self.plan(1, 1, 1, flags=flags)
        self.assertTrue(self.settings(registry).registry.order_message_enable)
        self.assertEqual(self.settings(master).broker.broker_role, "SYNC_MASTER")
        self.assertEqual(self.settings(slave).broker.broker_role, "SLAVE")
        self.assertEqual(self.settings(slave).store.flush_disk_type, "SYNC_FLUSH")
        self.assertEqual(settings_in({"opsDebug": "true", "flushDiskType": "x"}, ("ops",)), {"ops.opsDebug": "true"})
        for node in self.plan(1, 1, 1, flags={"opsDebug": "true"}):
            self.assertFalse([name for name in node.flags if "ops" in name])
        for name, value in (("brokerName", "x"), ("listenPort", "1"), ("nobodyKnows", "1"), ("brokerRole", "slave")):
            self.assertRaises(SettingError, self.plan, 1, 1, 1, flags={name: value})

    def test_old_store(self) -> None:
        """A store that is there keeps the size of its files, and one that is asked for is used."""
        self.env.files.make_directories("/d/broker-a/store/commitlog")
        self.env.files.create("/d/broker-a/store/commitlog/00000000000000000000", b"x")
        _, first, second = self.plan(2, 0, 1)
        self.assertIsNone(self.settings(first).store.mapped_file_size_commit_log)
        _, _, second = self.plan(2, 0, 1, flags={"mappedFileSizeCommitLog": "1MiB"})
        self.assertEqual(self.settings(second).store.mapped_file_size_commit_log, 1 << 20)

    def test_command(self) -> None:
        """A node is run by twistd's command for its role, in the foreground, with its log and its settings."""
        registry, master, slave = (one.arguments("/c.toml") for one in self.plan(1, 1, 1))
        for words, program, name in (
            (registry, "smartgo-registry", "registry-1"),
            (master, "smartgo-broker", "broker-a"),
            (slave, "smartgo-slave", "broker-a-slave-1"),
        ):
            self.assertEqual(words[:3], ["--nodaemon", "--pidfile=", f"--logfile=/d/{name}/{name}.log"])
            self.assertEqual(words[3:6], [program, "--ops=off", "--config=/c.toml"])
            self.assertTrue(all(word.startswith("--set=") for word in words[6:]), words)


class FakeProcess:
    """A fake that spawns, and what it has spawned."""

    def __init__(self, protocol: NodeProcess, environment: dict[str, str]) -> None:
        self.pid = 1000
        self.protocol = protocol
        self.address = environment["NOTIFY_SOCKET"]
        self.signals: list[str] = []
        self.stubborn = False
        self.gone = False
        protocol.makeConnection(self)

    def end(self, status: int | None = None, number: int | None = None) -> None:
        """Exit, or die by a signal."""
        self.gone = True
        reason = ProcessTerminated(status, number) if status or number else ProcessDone(0)
        self.protocol.processEnded(Failure(reason))

    def signalProcess(self, name: str) -> None:
        """Obey."""
        if self.gone:
            raise ProcessExitedAlready
        self.signals.append(name)
        if name == "KILL":
            self.end(number=signal.SIGKILL)
        elif not self.stubborn:
            self.end()


class NodesTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Two registries, two masters, two slaves, not started."""
        self.env = FakeEnvironment()
        self.spawned: dict[str, FakeProcess] = {}
        self.said: list[str] = []
        self.plan = plan(self.env, "/d", ClusterShape(2, 1, 2))
        self.nodes = NodeProcesses(self.env, cast("Callable[..., Any]", self.spawn), self.said.append)

    def spawn(self, protocol: NodeProcess, executable: str, args: list[str], env: dict[str, str]) -> FakeProcess:
        """Begin a process."""
        self.assertEqual(args[:3], [sys.executable, "-m", "smartgo.node.child"])
        process = self.spawned[protocol.node.name] = FakeProcess(protocol, env)
        return process

    def serve(self, *names: str) -> None:
        """Have nodes say that they are ready."""
        for name in names:
            self.env.network.tell(self.spawned[name].address, b"STATUS=fine\nREADY=1")

    def begin(self) -> Deferred[list[NodeProcess]]:
        """Start all."""
        return Deferred.fromCoroutine(self.nodes.start(self.plan))

    def run_all(self) -> None:
        """Start all, successfully."""
        starting = self.begin()
        for letter in ("registry-1 registry-2", "broker-b broker-a", "broker-a#1 broker-b#1"):
            self.serve(*letter.split())
        self.assertEqual(len(self.successResultOf(starting)), 6)

    def test_order(self) -> None:
        """Masters are begun when all registries serve, slaves when all masters do."""
        starting = self.begin()
        self.assertEqual(list(self.spawned), ["registry-1", "registry-2"])
        self.serve("registry-2")
        self.assertEqual(len(self.spawned), 2)
        self.serve("registry-1")
        self.assertEqual(len(self.spawned), 4)
        self.serve("broker-a", "broker-b")
        self.assertNoResult(starting)
        self.serve("broker-a#1", "broker-b#1")
        self.assertEqual([one.node for one in self.successResultOf(starting)], self.plan)

    def test_stop(self) -> None:
        """Slaves stop first, then masters, then registries; nothing is left."""
        self.run_all()
        order: list[str] = []

        def ended(process: NodeProcess) -> NodeProcess:
            order.append(process.node.name)
            return process

        for process in self.spawned.values():
            process.protocol.ended.addCallback(ended)
        self.spawned["broker-b"].stubborn = True
        stopping = Deferred.fromCoroutine(self.nodes.stop())
        self.assertNoResult(stopping)
        self.assertEqual(set(order), {"broker-a#1", "broker-b#1", "broker-a"})
        self.spawned["broker-b"].end()
        self.successResultOf(stopping)
        self.assertEqual(set(order[-2:]), {"registry-1", "registry-2"})
        self.assertEqual((self.said, self.env.network.ears, self.env.clock.getDelayedCalls()), ([], {}, []))

    def test_kill(self) -> None:
        """A node that does not stop is killed."""
        self.run_all()
        self.spawned["broker-a"].stubborn = True
        stopping = Deferred.fromCoroutine(self.nodes.stop())
        self.env.clock.advance(STOP_TIMEOUT)
        self.successResultOf(stopping)
        self.assertEqual(self.spawned["broker-a"].signals, ["TERM", "KILL"])
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_no_start(self) -> None:
        """A node that ends before it serves ends the start with its sentence and its status."""
        starting = self.begin()
        self.serve("registry-1")
        self.spawned["registry-2"].protocol.errReceived(b"smartgo-registry: port 9877 is in use\n")
        self.spawned["registry-2"].end(75)
        refusal = self.failureResultOf(starting, CommandError).value
        self.assertEqual(refusal.exit_code, 75)
        self.assertEqual(refusal.message, "registry-2 did not start: smartgo-registry: port 9877 is in use")
        self.successResultOf(Deferred.fromCoroutine(self.nodes.stop()))
        self.assertEqual(self.spawned["registry-1"].signals, ["TERM"])

    def test_traceback(self) -> None:
        """What it says in more than one line is shown as lines, before the sentence; control characters escaped."""
        starting = self.begin()
        self.spawned["registry-1"].protocol.errReceived(b"Traceback\n  \x1b[31mline\n")
        self.spawned["registry-1"].end(number=signal.SIGSEGV)
        refusal = self.failureResultOf(starting, CommandError).value
        self.assertEqual(refusal.exit_code, 1)
        self.assertIn("registry-1 was killed by SIGSEGV; log: /d/registry-1/registry-1.log", refusal.message)
        self.assertEqual(self.said, ["last output of registry-1:\n    Traceback\n      \\x1b[31mline"])

    def test_lost(self) -> None:
        """A node that dies later is reported with the end of its log and how to restart it; the others keep running."""
        self.run_all()
        self.env.files.create("/d/broker-b/broker-b.log", b"one\ntwo\n")
        self.spawned["broker-b"].end(number=signal.SIGKILL)
        told, again = self.said
        self.assertEqual(told, "broker-b was killed by SIGKILL; log: /d/broker-b/broker-b.log\n    one\n    two")
        self.assertIn("the other nodes keep running", again)
        self.assertIn("twistd --nodaemon --pidfile= --logfile=/d/broker-b/broker-b.log smartgo-broker", again)
        self.assertNoResult(self.nodes.over)
        self.assertIn("to restart broker-b, in another terminal: ", again)
        self.successResultOf(Deferred.fromCoroutine(self.nodes.stop()))
        self.assertEqual(self.spawned["broker-b"].signals, [])
        self.assertEqual(self.said, [told, again])

    def test_restarted_by_hand(self) -> None:
        """A node that a person started again is no part of the cluster: it is named when the others have stopped."""
        self.run_all()
        self.spawned["broker-b"].end(number=signal.SIGKILL)
        address = self.spawned["broker-b"].protocol.node.address
        self.env.network.listen(f"tcp:{address.rpartition(':')[2]}", Factory())
        self.successResultOf(Deferred.fromCoroutine(self.nodes.stop()))
        self.assertEqual(self.said[-1], f"broker-b was started again by hand and goes on at {address}: stop it there")

    def test_last(self) -> None:
        """When the last has ended, it is over."""
        self.run_all()
        for process in self.spawned.values():
            self.assertNoResult(self.nodes.over)
            process.end(74)
        self.successResultOf(self.nodes.over)


class ChildTests(SynchronousTestCase):
    def test_leash(self) -> None:
        """A part goes on at ctrl-C in the terminal, and stops in order when who started it is gone."""
        port = RealNetwork(None).free_port()
        command = [sys.executable, "-m", "smartgo.node.child", "--nodaemon", "--pidfile=", "smartgo-registry"]
        command += [f"--listen={port}", f"--set=kvConfigPath={os.path.abspath(self.mktemp())}/kv.json"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
        )
        assert process.stdout is not None
        assert process.stdin is not None
        while b"registry is ready" not in (line := process.stdout.readline()):
            self.assertTrue(line)
        self.assertNotEqual(os.getpgid(process.pid), os.getpgid(0))
        self.assertIsNone(process.poll())
        process.stdin.close()
        rest = process.stdout.read()
        process.stdout.close()
        self.assertEqual((process.wait(240), b"Traceback" in rest), (0, False), rest)


class DevTests(SynchronousTestCase):
    def dev(self, *words: str) -> tuple[subprocess.Popen[str], list[str], str]:
        """Start a cluster on ports of its own; return what it said until it was ready, and a registry."""
        registry = PORTS.take(40)  # a broker takes the ports beside its own, and the next one begins ten further on
        broker = registry + 4
        self.data = os.path.abspath(self.mktemp())
        command = [*DEV, "--data", self.data, "--listen", str(broker), "--registry-listen", str(registry)]
        command += ["--set", "mappedFileSizeCommitLog=1MiB", "--ops", "off", *words]
        process = subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
        )
        self.addCleanup(self.clear, process)
        assert process.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("Ready")) and (line := process.stdout.readline()):
            said.append(line)
        return process, said, f"127.0.0.1:{registry}"

    def clear(self, process: subprocess.Popen[str]) -> None:
        """Leave nothing, whatever happened; the nodes end with their parent."""
        if process.poll() is None:
            process.kill()
            process.communicate()

    def told(self, process: subprocess.Popen[str], *sentences: str) -> None:
        """Wait until these were said on standard error, one after another."""
        assert process.stderr is not None
        for sentence in sentences:
            line = process.stderr.readline()
            while sentence not in line:
                self.assertTrue(line, sentence)
                line = process.stderr.readline()

    def pids(self, said: list[str]) -> dict[str, int]:
        """The processes of the table, by node."""
        rows = [line.split() for line in said if self.data in line and " " in line.strip()]
        return {row[0]: int(row[3]) for row in rows if len(row) == 5}

    def gone(self, pids: dict[str, int]) -> bool:
        """Tell whether all of these processes have ended, within a while."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()):
                return True
            time.sleep(0.05)
        return False

    def test_cluster(self) -> None:
        """Two masters share a topic; a node that dies is reported, the others keep running; ctrl-C ends all with 0."""
        process, said, registry = self.dev("--masters", "2", "--registries", "2")
        pids = self.pids(said)
        self.assertEqual(sorted(pids), ["broker-a", "broker-b", "registry-1", "registry-2"], said)
        made = smartgo("topic", "create", "T", "-n", "2", "-r", registry)
        self.assertEqual(made.returncode, 0, made.stderr)
        sent = smartgo("send", "T", "hello", "--count", "8", "-r", registry)
        self.assertEqual((sent.returncode, sent.stderr), (0, b""))
        read = smartgo("consume", "T", "--from", "first", "--count", "8", "-o", "jsonl", "-r", registry)
        found = [json.loads(line) for line in read.stdout.splitlines()]
        self.assertEqual((len(found), {one["broker"] for one in found}), (8, {"broker-a", "broker-b"}), read.stderr)
        os.kill(pids["registry-1"], signal.SIGKILL)
        self.told(process, "registry-1 was killed by SIGKILL", "the other nodes keep running")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, errors)
        self.assertTrue(self.gone(pids))

    def test_slave(self) -> None:
        """A slave has what its master acknowledged, and hands it out when the master is killed."""
        process, said, registry = self.dev("--slaves", "1", "--set", "brokerRole=SYNC_MASTER")
        pids = self.pids(said)
        self.assertEqual(sorted(pids), ["broker-a", "broker-a#1", "registry-1"], said)
        self.assertIn("SYNC_MASTER", "".join(said))
        sent = smartgo("send", "T", "hello", "--count", "8", "-o", "json", "-r", registry)
        self.assertEqual((sent.returncode, sent.stderr), (0, b""))
        os.kill(pids["broker-a"], signal.SIGKILL)
        self.told(process, "broker-a was killed by SIGKILL", "the other nodes keep running")
        read = smartgo("consume", "T", "--from", "first", "--count", "8", "-o", "jsonl", "-r", registry)
        self.assertEqual([json.loads(line)["body"] for line in read.stdout.splitlines()], ["hello"] * 8, read.stderr)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, errors)
        self.assertTrue(self.gone(pids))

    def test_killed(self) -> None:
        """When the command itself is killed, its nodes stop in order."""
        process, said, _ = self.dev("--masters", "2")
        pids = self.pids(said)
        self.assertEqual(len(pids), 3, said)
        process.kill()
        process.communicate()
        self.assertTrue(self.gone(pids))
        for name in ("broker-a", "broker-b"):
            self.assertFalse(os.path.exists(os.path.join(self.data, name, "store", "abort")), name)

    def test_statuses(self) -> None:
        """A wrong setting ends it with 78, a port in use with 75, each in one sentence and before anything runs."""
        process, said, _ = self.dev("--masters", "2", "--set", "brokerName=x")
        self.assertEqual((process.wait(240), said), (78, []))
        port = self.port_in_use()
        process, said, _ = self.dev("--masters", "2", "--registry-listen", str(port))
        self.assertEqual((process.wait(240), said), (75, []))

    def port_in_use(self) -> int:
        """Somebody listens there."""
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        self.addCleanup(taken.close)
        return int(taken.getsockname()[1])
