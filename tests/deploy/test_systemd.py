"""The systemd units: what they promise, and that systemd understands them."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys

from smartgo.config.loading import Configuration
from tests.deploy.case import DEPLOY, TWISTD, DeployCase, deployed

UNITS = ("smartgo-registry.service", "smartgo-broker@.service", "smartgo-slave@.service", "smartgo-ops.service")
ANALYZE = shutil.which("systemd-analyze")


def unit(name: str) -> configparser.ConfigParser:
    """A unit, read."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(deployed("systemd", name))
    return parser


class UnitTests(DeployCase):
    def command(self, name: str) -> list[str]:
        """Return the command of a unit, for the instance C{a}."""
        return unit(name)["Service"]["ExecStart"].replace("%i", "a").replace("%S", "/var/lib").split()

    def configuration(self, name: str) -> Configuration:
        """Return the configuration of the unit's program."""
        return self.configured(self.command(name)[1 + len(TWISTD) :])

    def test_promises(self) -> None:
        """Each says when it is ready, has more time to stop than it takes, and does not repeat a wrong setting."""
        for name in UNITS:
            service = unit(name)["Service"]
            self.assertEqual((service["Type"], service["NotifyAccess"]), ("notify", "main"), name)
            self.assertGreater(int(service["TimeoutStopSec"]), 10, name)
            self.assertEqual((service["Restart"], service["RestartPreventExitStatus"]), ("on-failure", "78"), name)
            self.assertGreater(int(service["LimitNOFILE"]), 20_000, name)
            self.assertEqual(self.command(name)[1 : 1 + len(TWISTD)], TWISTD, name)

    def test_same(self) -> None:
        """All are shut in alike, and each writes to its own directory alone."""
        own = {"ExecStart", "StateDirectory", "WorkingDirectory", "TimeoutStartSec"}
        found = [{key: value for key, value in unit(name)["Service"].items() if key not in own} for name in UNITS]
        for one in found[1:]:
            self.assertEqual(one, found[0])
        self.assertEqual((found[0]["ProtectSystem"], found[0]["NoNewPrivileges"]), ("strict", "yes"))
        folders = [unit(name)["Service"]["StateDirectory"] for name in UNITS]
        self.assertEqual(len(set(folders)), len(UNITS))
        for name, folder in zip(UNITS, folders, strict=True):
            self.assertIn(f"=%S/{folder}", unit(name)["Service"]["ExecStart"], name)

    def test_settings(self) -> None:
        """Their command lines and the example settings are what the programs understand."""
        registry = self.configuration("smartgo-registry.service")
        self.assertEqual(registry.registry.kv_config_path, "/var/lib/smartgo/registry/kvConfig.json")
        broker = self.configuration("smartgo-broker@.service")
        slave = self.configuration("smartgo-slave@.service")
        self.assertEqual(broker.store.store_path_root_dir, "/var/lib/smartgo/broker-a")
        self.assertEqual(slave.store.store_path_root_dir, "/var/lib/smartgo/slave-a")
        self.assertEqual(broker.broker.broker_name, slave.broker.broker_name)
        self.assertEqual((broker.broker.broker_id, slave.broker.broker_id, slave.broker.is_slave), (0, 1, True))
        front = self.configuration("smartgo-ops.service")
        self.assertEqual(front.ops.ops_path, "/var/lib/smartgo/ops")
        self.assertEqual(front.broker.namesrv_addr, broker.broker.namesrv_addr)

    def test_side_by_side(self) -> None:
        """A master, a slave of another, a registry and a console fit on one machine: no two have a port in common."""
        ports: list[int | None] = [self.configuration("smartgo-registry.service").registry.listen_port]
        for name in ("smartgo-broker@.service", "smartgo-slave@.service"):
            found = self.configuration(name)
            ports += [found.broker.listen_port, found.broker.fast_listen_port, found.ha_port]
            ports.append(int(str(found.ops.ops_listen).rpartition(":")[2]))
        ports.append(int(str(self.configuration("smartgo-ops.service").ops.ops_listen).rpartition(":")[2]))
        self.assertEqual(len(set(ports)), len(ports), ports)

    def verify(self, word: str = "", other: str = "") -> subprocess.CompletedProcess[str]:
        """Ask systemd for its opinion of the units, with a program that is there, and a word replaced."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        twistd = os.path.join(folder, "twistd")
        os.symlink(sys.executable, twistd)  # anything that can be run
        paths = []
        for name in UNITS:
            text = deployed("systemd", name).replace("/opt/smartgo/bin/twistd", twistd)
            text = text.replace(word, other) if word else text
            paths.append(os.path.join(folder, name.replace("@", "@a")))
            with open(paths[-1], "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True, timeout=120, check=False
        )

    def test_verify(self) -> None:
        """systemd has nothing to say about them."""
        result = self.verify()
        complaints = [line for line in result.stderr.splitlines() if "smartgo" in line]
        self.assertEqual((result.returncode, complaints), (0, []))

    def test_verify_finds(self) -> None:
        """It would say what it does not understand."""
        result = self.verify("Type=notify", "Type=nonsense")
        self.assertIn("nonsense", result.stderr)

    if ANALYZE is None:
        test_verify.skip = test_verify_finds.skip = "systemd-analyze is not installed"  # type: ignore[attr-defined]

    def test_user(self) -> None:
        """The user that the units run as is the one that sysusers makes."""
        line = deployed("systemd", "smartgo.sysusers").splitlines()[-1]
        self.assertEqual(line.split()[:2], ["u", unit(UNITS[0])["Service"]["User"]])
        self.assertEqual(sorted(os.listdir(os.path.join(DEPLOY, "systemd"))), sorted([*UNITS, "smartgo.sysusers"]))
