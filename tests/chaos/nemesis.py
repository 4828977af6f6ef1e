"""
Faults of a cluster: each can be begun and ended, and reports at its end how often it was seen to happen.

A fault that says 0 never happened, whatever was ordered: the checker then gives no verdict (reliability T15).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.chaos.disks import Disk
from tests.chaos.network import Dropped, Host, Throttled
from tests.chaos.proxy import MARK, PORT
from tests.interop.namespaces import enter
from tests.interop.peers import Node
from tests.interop.process import Process

_LOOKS = 200
_ROOT = Path(__file__).resolve().parents[2]


class Fault(Protocol):
    """
    One thing that can be wrong.

    @ivar name: of the kind.
    @ivar target: what it hits.
    """

    name: str
    target: str

    def begin(self) -> None:
        """Let it be so from now on."""

    def end(self) -> int:
        """Put it right and return how often it was seen to happen."""


class Cut:
    """Two hosts no longer hear each other."""

    name = "link cut"

    def __init__(self, one: Host, other: Host) -> None:
        self.target = f"{one.name} and {other.name}"
        self._pairs = ((one, other), (other, one))
        self._drops: list[Dropped] = []

    def begin(self) -> None:
        self._drops = [Dropped(host, source) for host, source in self._pairs]

    def end(self) -> int:
        return sum(drop.end() for drop in self._drops)


class OneWayCut:
    """One host no longer hears another, which hears it."""

    name = "one-way cut"

    def __init__(self, deaf: Host, source: Host) -> None:
        self.target = f"{source.name} to {deaf.name}"
        self._hosts = (deaf, source)

    def begin(self) -> None:
        self._drop = Dropped(*self._hosts)

    def end(self) -> int:
        return self._drop.end()


class Loss:
    """Of all packets between hosts some are lost, at random, in both directions."""

    name = "loss"

    def __init__(self, one: Host, *others: Host, percent: int = 5) -> None:
        self.target = f"{percent} % between {one.name} and {', '.join(other.name for other in others)}"
        self._percent = percent
        self._pairs = [pair for other in others for pair in ((one, other), (other, one))]
        self._drops: list[Dropped] = []

    def begin(self) -> None:
        self._drops = [Dropped(host, source, self._percent) for host, source in self._pairs]

    def end(self) -> int:
        return sum(drop.end() for drop in self._drops)


def link_faults(one: Host, other: Host) -> list[Fault]:
    """Return what can be wrong with the link between two hosts without its being slow."""
    return [Cut(one, other), OneWayCut(one, other), OneWayCut(other, one), Loss(one, other)]


class SlowLink:
    """A limit on the rate at which a host sends."""

    name = "slow link"

    def __init__(self, host: Host, rate: str = "1mbit") -> None:
        self.target = f"{rate} from {host.name}"
        self._host = host
        self._rate = rate

    def begin(self) -> None:
        self._throttled = Throttled(self._host, self._rate)

    def end(self) -> int:
        return self._throttled.end()


class Delay:
    """
    A delay of the connections that a host opens, in both directions.

    Made before anything runs on the host: connections that exist already do not pass through the proxy.
    """

    name = "delay"

    def __init__(self, host: Host, home: str, seconds: float = 0.2) -> None:
        self.target = f"{seconds:g} s on what {host.name} opens"
        self._seconds = seconds
        command = [*enter(host.network), sys.executable, "-m", "tests.chaos.proxy"]
        self._answers: list[bytes] = []
        self._proxy = Process(
            f"proxy-{host.name}", command, home, {"PYTHONPATH": str(_ROOT)}, on_line=self._answers.append
        )
        self._proxy.wait_until(lambda: bool(self._answers), 20, "its first word")
        host.run(
            "nft",
            "table ip delays { chain opened { type nat hook output priority -100;"
            f" oifname eth0 meta l4proto tcp meta mark != {MARK} counter redirect to :{PORT}; }}; }}",
        )

    def begin(self) -> None:
        self._tell(self._seconds)

    def end(self) -> int:
        return self._tell(0)

    def close(self) -> None:
        """End the proxy and all connections through it."""
        self._proxy.kill()

    def _tell(self, seconds: float) -> int:
        told = len(self._answers)
        self._proxy.write(f"{seconds}\n".encode())
        self._proxy.wait_until(lambda: len(self._answers) > told, 20, "its answer")
        return int(self._answers[-1])


class Pause:
    """A process stands still; its connections stay open, and the kernel goes on taking what is sent to it."""

    name = "pause"

    def __init__(self, node: Node, what: str) -> None:
        self.target = what
        self._node = node
        self._seen = 0

    def begin(self) -> None:
        self._seen = int(_stop(self._node.pid))

    def end(self) -> int:
        still = int(_states(self._node.pid) == {"T"})
        os.kill(self._node.pid, signal.SIGCONT)
        return min(self._seen, still)


class WrongAnswers:
    """A process is killed, and one that answers nonsense stands at its port until it is back."""

    name = "wrong answers"

    def __init__(self, node: Node, what: str) -> None:
        self.target = what
        self._node = node
        self._answered = 0

    def begin(self) -> None:
        plan = self._node.plan
        self._node.kill()
        command = [*enter(plan.network), sys.executable, "-m", "tests.chaos.wrongregistry", str(plan.port)]
        self._process = Process("wrong-registry", command, plan.home, {"PYTHONPATH": str(_ROOT)}, on_line=self._count)

    def end(self) -> int:
        self._process.kill()
        self._node.start()
        return self._answered

    def _count(self, line: bytes) -> None:
        self._answered += 1


class Kill:
    """A process is killed, and started again at the end."""

    name = "kill"

    def __init__(self, node: Node, what: str, back: Callable[[], object] | None = None) -> None:
        """
        @param back: how it comes back; by default it is started, as it was.
        """
        self.target = what
        self._node = node
        self._back = back or node.start
        self._killed = 0

    def begin(self) -> None:
        self._node.kill()
        self._killed = int(not self._node.running)

    def end(self) -> int:
        self._back()
        return self._killed


class Emptied(Kill):
    """A process is killed and its whole store removed; it comes back with nothing."""

    name = "killed and emptied"

    def begin(self) -> None:
        store = Path(self._node.plan.store)
        there = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        super().begin()
        shutil.rmtree(store)
        self._killed = self._killed and int(there > 0 and not store.exists())


class DiskDeleted(Emptied):
    """A process is killed, its store removed, and it stays away."""

    name = "killed, its disk deleted"

    def __init__(self, node: Node, what: str) -> None:
        super().__init__(node, what, back=lambda: None)


class PowerCut:
    """
    A machine loses power: its broker stands still, its disk takes nothing any more, the broker is gone.

    The broker is stopped before its disk is, or else what it answers in between would count as acknowledged; that it
    was stopped and that the disk was dead are what is counted (reliability T14). At the end the disk is mounted, which
    replays the journal of its file system, and the broker is started.
    """

    name = "power cut"

    def __init__(self, node: Node, disk: Disk, what: str) -> None:
        self.target = f"{what} on {disk.kind}"
        self._node = node
        self._disk = disk
        self._cut = 0

    def begin(self) -> None:
        stopped = _stop(self._node.pid)
        self._disk.cut_power()
        dead = self._disk.dead
        self._node.kill()
        self._disk.unmount()
        self._cut = int(stopped and dead)

    def end(self) -> int:
        self._disk.mount()
        self._node.start()
        return self._cut


class ReadOnly:
    """
    A disk refuses all writes from the moment at which its file system found an error in itself.

    At the end the broker is stopped, the disk is mounted anew, and the broker is started: nothing else makes it
    writable again.

    @ivar exit_code: of the broker, when it was told to stop.
    """

    name = "read-only disk"

    def __init__(self, node: Node, disk: Disk, what: str) -> None:
        self.target = f"{what} on {disk.kind}"
        self.exit_code = 0
        self._node = node
        self._disk = disk
        self._seen = 0

    def begin(self) -> None:
        self._disk.fail_read_only()
        self._seen = int(self._disk.read_only)

    def end(self) -> int:
        still = int(self._disk.read_only)
        self.exit_code = self._node.stop()
        self._disk.unmount()
        self._disk.mount()
        self._node.start()
        return min(self._seen, still)


def _stop(pid: int) -> bool:
    """Send SIGSTOP to a process and return whether all its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(_LOOKS):  # a thread stops when it has left what it was in, such as a flush
        if _states(pid) == {"T"}:
            return True
        threading.Event().wait(0.01)
    return False


def _states(pid: int) -> set[str]:
    """Return the letters that the kernel has for what the threads of a process do; C{T} for one that is stopped."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}
