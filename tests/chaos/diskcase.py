"""Shared parts of the tests of disks that fail, are full or slow: a broker alone, and the answers after a moment."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from unittest import SkipTest

from tests.chaos import syscalls
from tests.chaos.case import TOPIC, ChaosCase
from tests.chaos.history import Fail, History, Info, Ok, Read
from tests.chaos.rounds import BROKER_PORT, Round, until
from tests.interop.peers import Node, Peer, Plan, ask

SYNC = {"flushDiskType": "SYNC_FLUSH"}
SMALL_LOG = {"mappedFileSizeCommitLog": str(1 << 20)}
"""Log files of 1 MiB, so that a run goes through several."""
BLOCKED = ("the reactor was blocked for", "the reactor is blocked in")
"""What a broker writes about a stall of the reactor of 250 ms and more: once a minute, and once for each stack."""
REFUSED = "14 "
"""The begin of what a refused send says: the code."""

_STALL = 0.25  # seconds
_HEART_BEAT = 34
_HEART = b'{"clientID":"chaos@probe","consumerDataSet":[],"producerDataSet":[{"groupName":"probes"}]}'


class DiskCase(ChaosCase):
    """Rounds with a registry and a master whose system calls are injected."""

    def needs_strace(self) -> None:
        """Skip where no system call can be injected. @raise SkipTest"""
        reason = syscalls.unavailable()
        if reason is not None:
            raise SkipTest(f"no injected system calls: {reason}")

    def running(self, name: str, settings: Mapping[str, str] | None = None) -> Round:
        """Return a round in which a registry and a master run, and which has a topic."""
        run = self.round(name)
        run.registry()
        run.broker("master", settings=settings)
        run.start()
        run.topic(TOPIC)
        return run

    def moment(self, run: Round, monotonic: float) -> float:
        """Return a moment of the monotonic clock in seconds since the run began."""
        return monotonic - run.recorder.begun

    def answers_after(self, run: Round, moment: float) -> list[Ok]:
        """Return the answers with code 0 to sends that began after a moment of the run."""
        seen = History(run.recorder.events)
        return [ok for ok in seen.acked.values() if ok.code == 0 and seen.invoked[ok.value].t > moment]

    def refusals_after(self, run: Round, moment: float) -> list[tuple[float, str]]:
        """Return how long each send took that began after a moment and was refused, and what it was told."""
        events = list(run.recorder.events)  # a load that goes on adds to them
        seen = History(events)
        return [
            (event.t - seen.invoked[event.value].t, event.why)
            for event in events
            if isinstance(event, Fail | Info) and seen.invoked[event.value].t > moment
        ]

    def await_refusal(self, run: Round, moment: float, timeout: float = 10.0) -> float:
        """Wait until a send that began after a moment is refused with 14; return the seconds from that moment."""
        found: list[float] = []

        def refused() -> bool:
            seen = History(run.recorder.events[-5000:])
            found.extend(
                event.t - moment
                for event in run.recorder.events[-5000:]
                if isinstance(event, Fail)
                and event.why.startswith(REFUSED)
                and event.value in seen.invoked
                and seen.invoked[event.value].t > moment
            )
            return bool(found)

        until(refused, timeout, "a send refused with 14", every=0.05)
        return min(found)

    def assert_read_again(self, run: Round, label: str, limit: float = 30.0) -> None:
        """Fail unless a new group reads all that was acknowledged so far, now; note how long that took."""
        wanted = {ok.value for ok in History(run.recorder.events).required}
        load = run.load(TOPIC, label=label, producers=0, readers=label)

        def read() -> bool:
            return wanted <= {
                event.value
                for event in list(run.recorder.events)
                if isinstance(event, Read) and event.who.startswith(f"{label} ")
            }

        took = until(read, limit, f"{len(wanted)} messages read by {label}", every=0.5)
        run.figure(f"{label}: a new group reads all {len(wanted)} messages", "all", f"all, in {took:.1f} s")
        load.stop()

    def finish(self, run: Round, restart: bool = False) -> None:
        """
        End the loads, read everything and judge.

        @param restart: the broker is restarted before, as it takes no messages any more.
        """
        run.stop_loads()
        if restart:
            node = run.nodes["master"]
            node.end()
            node.start()
        run.final_read("master")
        run.judge()


class HeartBeats:
    """A client that does nothing but send heartbeats, each on a connection of its own, and count the answers."""

    def __init__(self, node: Node, every: float = 0.1) -> None:
        self._plan = node.plan
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self.answered: list[float] = []  # seconds that each took
        self.missed = 0
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(self._every):
            begin = time.monotonic()
            if ask(self._plan, _HEART_BEAT, content=_HEART) is None:
                self.missed += 1
            else:
                self.answered.append(time.monotonic() - begin)


def log_of(run: Round, name: str = "master") -> str:
    """Return all that a node has written to its log."""
    return "".join(path.read_text(errors="replace") for path in Path(run.home, name).glob("*.log"))


def log_files(run: Round, name: str = "master") -> list[str]:
    """Return the paths of a store's CommitLog files, oldest first."""
    folder = os.path.join(run.nodes[name].plan.store, "commitlog")
    return sorted(os.path.join(folder, file) for file in os.listdir(folder) if file.isdigit())


class StallCheck:
    """
    The stalls of a broker's reactor from now on, as it logs them itself.

    On a machine that has no processor for the broker its reactor stalls whatever it does: the kernel says for how long
    the broker's threads waited for one.
    """

    def __init__(self, run: Round, name: str = "master") -> None:
        self._run = run
        self._name = name
        self._before = self._logged()
        self._waited = self._waits()

    def check(self, what: str) -> None:
        """
        Note the stalls since the begin.

        @raise AssertionError: there were some that nothing but the broker explains.
        """
        stalls = self._logged() - self._before
        waited = self._waits() - self._waited
        self._run.figure(
            f"{what}: stalls of the reactor of 250 ms and more",
            "0",
            f"{stalls}; {waited:.2f} s in all spent waiting for a processor",
        )
        assert not stalls or waited >= _STALL, f"{stalls} stalls of the reactor"

    def _logged(self) -> int:
        log = log_of(self._run, self._name)
        return sum(log.count(words) for words in BLOCKED)

    def _waits(self) -> float:
        """Return the seconds for which the main thread was ready to run and did not."""
        return int(Path(f"/proc/{self._run.nodes[self._name].pid}/schedstat").read_text().split()[1]) / 1e9


def add_peer(run: Round, peer: Peer, settings: Mapping[str, str]) -> Node:
    """Add a broker of ours or a real one to a round, as C{master}, not started; the caller ends it."""
    host = run.network.add("master")
    home = os.path.join(run.home, "master")
    told = {"allowInsecure": "true", **settings}
    store = os.path.join(home, "store")
    plan = Plan(BROKER_PORT, home, store, run.registries, settings=told, host=host.address, network=host.network)
    node = run.nodes["master"] = peer.broker(plan)
    return node


def restore(copy: str, node: Node) -> None:
    """Put the store of a stopped broker back as it was copied."""
    shutil.rmtree(node.plan.store)
    shutil.copytree(copy, node.plan.store)
