"""
Machines that are network namespaces of this one, on one switch: the links between them can be cut, lossy or slow.

Needs root, C{ip}, C{nsenter}, C{nft} and C{tc}. Nothing of it touches the machine's own network: switch and addresses
lie in namespaces of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess

from tests.interop.namespaces import enter

TOOLS = ("ip", "nsenter", "nft", "tc")
_numbers = itertools.count(1)


class NetworkFailed(Exception):
    """A command that arranges the network did not do so; the text holds it and what it said."""


def unavailable() -> str | None:
    """Return why namespaces cannot be made here; C{None} where they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class Host:
    """
    One machine.

    @ivar name: as its cluster calls it, such as C{master}.
    @ivar network: its namespace.
    @ivar address: its only one, beside the loopback address.
    """

    def __init__(self, name: str, network: str, address: str) -> None:
        self.name = name
        self.network = network
        self.address = address

    def run(self, *command: str) -> str:
        """
        Run a command inside and return what it printed.

        @raise NetworkFailed: it failed.
        """
        return _run(*enter(self.network), *command)


class Network:
    """
    Some hosts on one switch.

    @ivar hosts: by name.
    """

    def __init__(self) -> None:
        self._name = f"sg{os.getpid()}-{next(_numbers)}"
        self.hosts: dict[str, Host] = {}
        _run("ip", "netns", "add", self._name)
        self._inside("ip", "link", "add", "switch", "type", "bridge")
        self._inside("ip", "link", "set", "switch", "up")

    def add(self, name: str) -> Host:
        """Add a host; its address is the next of 10.77.0.0/24."""
        number = len(self.hosts) + 1
        host = Host(name, f"{self._name}-{name}", f"10.77.0.{number}")
        _run("ip", "netns", "add", host.network)
        self.hosts[name] = host
        port = f"port{number}"
        self._inside("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.network)
        self._inside("ip", "link", "set", port, "master", "switch", "up")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def remove(self) -> None:
        """Remove all of it; the programs inside must have ended."""
        for network in (*(host.network for host in self.hosts.values()), self._name):
            with contextlib.suppress(NetworkFailed):
                _run("ip", "netns", "delete", network)

    def _inside(self, *command: str) -> None:
        _run(*enter(self._name), *command)


class Dropped:
    """
    Packets that a host does not get from another: all, or some of them, at random.

    They vanish without a word, as on a cut line: connections stay open and learn nothing.
    """

    def __init__(self, host: Host, source: Host, percent: int = 100) -> None:
        self._host = host
        self._table = f"chaos{next(_numbers)}"
        some = "" if percent == 100 else f"numgen random mod 100 < {percent} "
        rules = (
            f"table ip {self._table} {{ chain drops {{ type filter hook input priority 0;"
            f" ip saddr {source.address} {some}counter drop; }}; }}"
        )
        host.run("nft", rules)

    def end(self) -> int:
        """Let everything pass again and return how many packets were dropped."""
        told = json.loads(self._host.run("nft", "-j", "list", "table", "ip", self._table))
        self._host.run("nft", "delete", "table", "ip", self._table)
        counters = re.findall(r'"packets": (\d+)', json.dumps(told))
        return sum(map(int, counters))


class Throttled:
    """The sent bytes of a host, limited by a token bucket."""

    def __init__(self, host: Host, rate: str) -> None:
        """
        @param rate: as C{tc} writes it: C{1mbit}.
        """
        self._host = host
        host.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")

    def end(self) -> int:
        """Let the host send as fast as it can again; returns how many packets had to wait or were dropped."""
        told = self._host.run("tc", "-s", "qdisc", "show", "dev", "eth0")
        self._host.run("tc", "qdisc", "delete", "dev", "eth0", "root")
        found = re.search(r"dropped (\d+), overlimits (\d+)", told)
        return 0 if found is None else int(found.group(1)) + int(found.group(2))


def _run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout
