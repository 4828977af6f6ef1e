"""
The cost of the console to the broker: sends with and without a recorded console open, window by window.

The requests are those that a browser made (C{console-requests.jsonl}: a line each with seconds since the page was
opened, and a path, in which C{{begin}} and C{{end}} stand for the last quarter of an hour). They are replayed over and
over at the same pace; streams of events are read as long as a window lasts.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from . import runner
from .control import Control
from .errors import BenchmarkError
from .generator import Load
from .processes import wait_for_port
from .runner import Say
from .scenarios import LOADS
from .spread import Spread, ratios
from .targets import READY_TIMEOUT, Ours

RECORD = Path(__file__).parent / "console-requests.jsonl"
GOAL = 1.05
TOPICS = 10_000
GROUPS = 100

_CREATE_GROUP = 200
_TIMEOUT = 30.0
_CHARTS_MS = 900_000


class Recorded(msgspec.Struct, frozen=True):
    """One request of a browser: when, in seconds since it opened the console, and what for."""

    at: float
    path: str
    stream: bool = False


class Outcome(msgspec.Struct):
    """CPU µs a message in neighbouring windows, and how the console's requests fared."""

    scenario: str
    topics: int
    groups: int
    without: list[float]
    during: list[float]
    requests: int = 0
    events: int = 0
    failures: list[str] = []
    slowest_s: float = 0.0

    @property
    def ratio(self) -> Spread | None:
        """With the console over without it, window by window."""
        return ratios(self.during, self.without)

    @property
    def met(self) -> bool:
        """Tell whether the ratio meets the goal and every request was answered."""
        return self.ratio is not None and self.ratio.median <= GOAL and not self.failures


def recorded(path: Path = RECORD) -> list[Recorded]:
    """Read a record. @raise BenchmarkError: it is none."""
    try:
        found = [msgspec.json.decode(line, type=Recorded) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchmarkError(f"{path}: {error}") from None
    if not found:
        raise BenchmarkError(f"{path} holds no request")
    return sorted(found, key=lambda one: one.at)


class OursWithOps(Ours):
    """smartgo with the REST API beside the broker's port."""

    @property
    def ops(self) -> str:
        """The address C{host:port} of the API."""
        return f"127.0.0.1:{self._broker_port + 2}"

    def start_broker(self, timeout: float = READY_TIMEOUT) -> float:
        """Start it, and wait for the API as well."""
        seconds = super().start_broker(timeout)
        if self._broker is not None:
            wait_for_port(self._broker_port + 2, self._broker, READY_TIMEOUT)
        return seconds

    def broker_command(self, settings: Path) -> list[str]:
        """Return the broker's command, with the API."""
        return [*super().broker_command(settings), f"--ops={self.ops}"]


class Replay:
    """One open console: its requests at their pace, its streams read; in threads of its own."""

    def __init__(self, address: str, requests: Sequence[Recorded], outcome: Outcome) -> None:
        self._address = address
        self._polls = [one for one in requests if not one.stream]
        self._streams = [one for one in requests if one.stream]
        self._outcome = outcome
        self._ended = threading.Event()
        self._open: list[http.client.HTTPConnection] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Replay the requests inside the block."""
        jobs = [threading.Thread(target=self._poll, daemon=True)]
        jobs += [threading.Thread(target=self._listen, args=(one.path,), daemon=True) for one in self._streams]
        for job in jobs:
            job.start()
        try:
            yield
        finally:
            self._ended.set()
            for job in jobs:
                job.join(_TIMEOUT)

    def _poll(self) -> None:
        period = self._polls[-1].at + 1.0 if self._polls else 1.0
        began = time.monotonic()
        connection = http.client.HTTPConnection(self._address, timeout=_TIMEOUT)
        while True:
            for one in self._polls:
                if self._ended.wait(max(0.0, began + one.at - time.monotonic())):
                    connection.close()
                    return
                now_ms = round(time.time() * 1000)
                path = one.path.replace("{begin}", str(now_ms - _CHARTS_MS)).replace("{end}", str(now_ms))
                asked = time.monotonic()
                try:
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException) as error:
                    self._outcome.failures.append(f"{one.path}: {error}")
                    connection.close()
                    continue
                if answer.status not in (200, 304):
                    self._outcome.failures.append(f"{one.path}: {answer.status}")
                self._outcome.requests += 1
                self._outcome.slowest_s = max(self._outcome.slowest_s, time.monotonic() - asked)
            began += period

    def _listen(self, path: str) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=2.0)
        try:
            connection.request("GET", path, headers={"Accept": "text/event-stream"})
            answer = connection.getresponse()
            while not self._ended.is_set():
                try:
                    line = answer.fp.readline()
                except TimeoutError:
                    continue
                if not line:
                    break
                self._outcome.events += line.startswith(b"data:")
        except (OSError, http.client.HTTPException) as error:
            self._outcome.failures.append(f"{path}: {error}")
        finally:
            connection.close()


def run(
    target: OursWithOps, binary: Path, requests: Sequence[Recorded], rounds: int, seconds: float, say: Say
) -> Outcome:
    """
    Measure on a broker that is up.

    @raise BenchmarkError: the broker declines, or a load breaks off.
    """
    scenario = next(one for one in LOADS if one.name == "send-1k")
    outcome = Outcome(scenario.name, TOPICS, GROUPS, [], [])
    say(f"making {TOPICS} topics and {GROUPS} groups")
    with Control(target.address) as control:
        for number in range(TOPICS):
            control.create_topic(f"ops-load-{number:05d}", 1)
        for number in range(GROUPS):
            group = f"ops-load-{number:03d}"
            control.demand(_CREATE_GROUP, body=msgspec.json.encode({"groupName": group, "retryQueueNums": 1}))
            control.commit(group, f"ops-load-{number:05d}", [0])
    runner.prepare(binary, target, scenario)
    say("warming up")
    runner.drive(binary, target, scenario.load, 0.0, 3.0)
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for console in (False, True) if number % 2 else (True, False):
            if console:
                with Replay(target.ops, requests, outcome).running():
                    outcome.during.append(_cost(binary, target, scenario.load, seconds))
            else:
                outcome.without.append(_cost(binary, target, scenario.load, seconds))
    return outcome


def _cost(binary: Path, target: OursWithOps, load: Load, seconds: float) -> float:
    return runner.drive(binary, target, load, 1.0, seconds).server_cpu_us


def told(outcome: Outcome) -> str:
    """Return the outcome as a few lines of text."""
    ratio = outcome.ratio
    lines = [
        f"{outcome.scenario}, {outcome.topics:,} topics, {outcome.groups} groups: CPU of the broker a message",
        "  without the console: " + ", ".join(f"{one:.1f}" for one in outcome.without) + " µs",
        "  with it open:        " + ", ".join(f"{one:.1f}" for one in outcome.during) + " µs",
        (
            f"  {outcome.requests} requests, the slowest {outcome.slowest_s:.2f} s; {outcome.events} events; "
            f"{len(outcome.failures)} failures"
        ),
    ]
    if ratio is not None:
        verdict = "met" if ratio.median <= GOAL else "missed"
        spread = f"median; {ratio.minimum:.3f} to {ratio.maximum:.3f}"
        lines.append(f"  ratio {ratio.median:.3f} ({spread}); asked {GOAL}: {verdict}")
    return "\n".join([*lines, *(f"  {one}" for one in outcome.failures[:5])])
