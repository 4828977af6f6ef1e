"""The systemd units on machines that systemd booted, installed by the words of docs/running.rst."""

from __future__ import annotations

from functools import partial

from tests.chaos.rounds import until
from tests.deploy.client import SOON, Client
from tests.deploy.machines import Machine, MachineCase, MachineFailed, unavailable

REGISTRY, BROKER, SLAVE, OPS = "smartgo-registry", "smartgo-broker@a", "smartgo-slave@a", "smartgo-ops"
CONNECTS = "import socket; socket.create_connection(('127.0.0.1', 10911), 1)"


def client(machine: Machine) -> Client:
    """Our command line on a machine."""
    return Client(partial(machine.run, "env", "NAMESRV_ADDR=10.77.0.1:9876", "smartgo"))


class OneMachineTests(MachineCase):
    def setUp(self) -> None:
        """A machine that has booted, with a registry and a broker."""
        super().setUp()
        self.machine = self.boot("first")
        self.client = client(self.machine)

    def ended(self, unit: str, how: str) -> None:
        """Wait until systemd has started a unit again that it saw end in some way."""
        until(lambda: f"Failed with result '{how}'" in self.machine.journal(unit), SOON, f"{unit} ends by {how}")
        until(lambda: self.machine.active(unit), SOON, f"{unit} is started again")
        self.assertEqual(self.machine.property(unit, "NRestarts"), "1")

    def test_boot(self) -> None:
        """What was enabled runs after a boot, the registry before the broker, shut in and with files of its own."""
        run = self.machine.run
        began = [int(self.machine.property(unit, "ActiveEnterTimestampMonotonic")) for unit in (REGISTRY, BROKER)]
        self.assertEqual(began, sorted(began))
        for unit, folder in ((REGISTRY, "registry"), (BROKER, "broker-a")):
            self.assertTrue(self.machine.active(unit), unit)
            self.assertEqual(run("stat", "-c", "%U %G %a", f"/var/lib/smartgo/{folder}"), "smartgo smartgo 700\n")
            process = self.machine.property(unit, "MainPID")
            self.assertEqual(run("ps", "-o", "user=", "-p", process).strip(), "smartgo")
            status = run("cat", f"/proc/{process}/status")
            self.assertIn("CapEff:\t0000000000000000\n", status)
            self.assertIn("Seccomp:\t2\n", status)
            run("systemd-analyze", "security", "--threshold=20", f"{unit}.service")  # of 100, the less the better
        others = run("find", "/", "-xdev", "-user", "smartgo", "-not", "-path", "/var/lib/smartgo/*")
        self.assertEqual(others, "")

    def test_ready(self) -> None:
        """A start returns when clients can connect, a reload changes no process, a stop is in order and soon."""
        run = self.machine.run
        self.client.send(3)
        process = self.machine.property(BROKER, "MainPID")
        run("systemctl", "reload", BROKER)
        until(lambda: self.machine.active(BROKER), SOON, "reloaded")
        self.assertEqual(self.machine.property(BROKER, "MainPID"), process)
        run("systemctl", "stop", BROKER)
        self.assertEqual(
            [self.machine.property(BROKER, name) for name in ("Result", "ExecMainStatus", "ActiveState")],
            ["success", "0", "inactive"],
        )
        self.assertIn("Server Shut Down", self.machine.journal(BROKER))
        self.assertRaises(MachineFailed, run, "python3", "-c", CONNECTS)
        run("systemctl", "start", BROKER)
        run("python3", "-c", CONNECTS)
        self.assertEqual(self.client.consumed("readers", 3), 3)

    def test_killed(self) -> None:
        """One that is killed is started again, with its messages."""
        self.client.send(3)
        self.machine.run("systemctl", "kill", "--signal=KILL", BROKER)
        self.ended(BROKER, "signal")
        self.assertEqual(self.client.consumed("readers", 3), 3)

    def test_stands_still(self) -> None:
        """One that stands still is ended after WatchdogSec, tells where it stood, and is started again."""
        self.machine.run("kill", "-STOP", self.machine.property(BROKER, "MainPID"))
        self.ended(BROKER, "watchdog")
        journal = self.machine.journal(BROKER)
        self.assertIn("Watchdog timeout (limit 1min)", journal)
        self.assertIn("Fatal Python error: Aborted", journal)
        self.assertIn("most recent call first", journal)

    def test_wrong_setting(self) -> None:
        """A wrong setting is told in a sentence, and not tried again."""
        self.machine.run("sed", "-i", "s/ASYNC_MASTER/NONSENSE/", "/etc/smartgo/broker-a.toml")
        self.assertRaises(MachineFailed, self.machine.run, "systemctl", "restart", BROKER)
        self.assertEqual(
            [self.machine.property(BROKER, name) for name in ("ActiveState", "ExecMainStatus", "NRestarts")],
            ["failed", "78", "0"],
        )
        self.assertIn("[broker]: brokerRole=NONSENSE is not allowed", self.machine.journal(BROKER))

    skip = unavailable()


class TwoMachinesTests(MachineCase):
    def test_slave(self) -> None:
        """A slave on the other machine has the messages when the master is gone, and the console runs beside it."""
        first = self.boot("first")
        first.run("systemctl", "stop", BROKER)  # the same image makes the second one a master of that name as well
        second = self.boot("second")
        second.run("systemctl", "disable", "--now", BROKER)
        folder = "/root/smartgo/docs/deploy/config"
        second.run("install", "-m", "0644", "-t", "/etc/smartgo", f"{folder}/slave-a.toml", f"{folder}/ops.toml")
        first.run("sed", "-i", "s/10.0.0.12/10.77.0.2/", "/etc/smartgo/broker-a.toml")
        first.run("systemctl", "start", BROKER)
        client(first).send(20)
        second.run("systemctl", "enable", "--now", SLAVE, OPS)
        client(second).mirrored("10.77.0.2:10931")
        ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:10914/api/v1/ready').status)"
        self.assertEqual(second.run("python3", "-c", ask), "200\n")
        first.run("systemctl", "stop", BROKER)
        self.assertEqual(client(second).consumed("readers", 20), 20)
        for unit in (SLAVE, OPS):
            second.run("systemctl", "stop", unit)
            self.assertEqual(second.property(unit, "Result"), "success")

    skip = unavailable()
