"""Shared parts of the tests of disks that fail, are full or slow: a broker alone, and the answers after a moment."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from unittest import SkipTest

from tests.chaos import syscalls
from tests.chaos.case import TOPIC, ChaosCase
from tests.chaos.history import Fail, History, Info, Ok, Read
from tests.chaos.rounds import Round, until
from tests.interop.peers import Node, answer

SYNC = {"flushDiskType": "SYNC_FLUSH"}
SMALL_LOG = {"mappedFileSizeCommitLog": str(1 << 20)}
"""Log files of 1 MiB, so that a run goes through several."""
BLOCKED = "the reactor was blocked for"
"""The begin of the line that a broker writes after a stall of the reactor of 250 ms and more."""
REFUSED = "14 "
"""The begin of what a refused send says: the code."""

_PULL_MESSAGE = 11


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
        seen = History(run.recorder.events)
        return [
            (event.t - seen.invoked[event.value].t, event.why)
            for event in run.recorder.events
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

    def log_of(self, run: Round, name: str = "master") -> str:
        """Return all that a node has written to its log."""
        return "".join(path.read_text(errors="replace") for path in Path(run.home, name).glob("*.log"))

    def log_files(self, run: Round, name: str = "master") -> list[str]:
        """Return the paths of the CommitLog's files, oldest first."""
        folder = os.path.join(run.nodes[name].plan.store, "commitlog")
        return sorted(os.path.join(folder, file) for file in os.listdir(folder) if file.isdigit())

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


def pull(node: Node, offset: int = 0, queue: int = 0) -> tuple[int | None, float]:
    """Pull once from a queue of the topic; return the code of the answer, if there was one, and the seconds it took."""
    fields = {
        "consumerGroup": "probes",
        "topic": TOPIC,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",  # with a subscription
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    begin = time.monotonic()
    told = answer(node.plan, _PULL_MESSAGE, fields)
    return None if told is None else told[0], time.monotonic() - begin
