"""
A week of a broker under load over the network, with faked clock and file times: C{python -m tests.broker.week}.

A process of its own has a registry and a broker on real sockets and real files. Its store lives on a clock that runs
faster, so that the week takes C{--minutes}: wall clock, timers and file times; connections, heartbeats and long polls
keep the real clock. The disk is ext4 of C{--disk} MiB in a file, which root alone can mount. The clients are in this
process, on connections to the broker:

 - a producer that fills the disk C{--turnover} times in the week, with a wave a day
 - a group of two push consumers that keeps up
 - a group that reads once every eight hours all that came meanwhile
 - a group that reads half of what comes, so that messages are removed before it reads them

The week fails if the disk passes 85 %, a send fails, one of the first two groups misses a message or gets one twice,
the broker's count of unread messages differs by more than a tenth from what the third one missed, or memory,
descriptors or mappings of the broker still grow after the third day.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Final
from unittest import mock

import msgspec
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react

from smartgo.broker import broker as broker_module
from smartgo.broker.broker import Broker
from smartgo.broker.network import BrokerSecurity
from smartgo.broker.settings.storesettings import store_settings
from smartgo.cli.support.embedded import configuration_of
from smartgo.client.client import Client, Embedding
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.client.pullconsumer import PullConsumer, PullStatus
from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import CallFailed, PeerRefused
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.node.all import with_own_registry
from smartgo.node.process import process_sweeper, server_limits
from smartgo.node.registryserver import Registry
from smartgo.schema.bodies import ConsumeFromWhere, MessageQueue
from smartgo.store.messagestore import MessageStore
from smartgo.store.settings import StoreSettings
from tests.store.fastclock import MIB, FastEnvironment, are_flat, process_figures, say, small_disk

WEEK: Final = 7 * 86_400
TOPIC: Final = "Week"
QUEUES: Final = 4
BODY: Final = b"." * 4000
BATCH: Final = 16  # messages of a send: a batch is one request, as half of the load of a real broker is


class Serving:
    """The broker's process: a registry and a broker whose store lives on a fast clock."""

    def __init__(self, root: str, factor: float, log_file: int, port: int) -> None:
        """@param port: of the registry; the broker has those after it."""
        self.env = RealEnvironment(_reactor)
        self.fast = FastEnvironment(self.env, factor)
        flags = {
            "storePathRootDir": os.path.join(root, "store"),
            "kvConfigPath": os.path.join(root, "kvConfig.json"),
            "mappedFileSizeCommitLog": str(log_file),
            "mappedFileSizeConsumeQueue": "6000",
            "maxHashSlotNum": "1000",
            "maxIndexNum": "4000",
            "diskFreeMinimum": "0",
            "deleteCommitLogFilesInterval": "100",
            "defaultTopicQueueNums": str(QUEUES),
            "registry.listenPort": str(port),
            "broker.listenPort": str(port + 2),
            "haListenPort": str(port + 3),
            "fastPort": "false",
            "brokerName": "week",
        }
        configuration = with_own_registry(configuration_of(self.env, flags))
        limits = server_limits(configuration.limits, configuration.limits.server_channel_max_idle_time_seconds)
        sweeper = process_sweeper(self.env, configuration.limits)
        settings = msgspec.structs.replace(
            store_settings(configuration.store),  # what waits for the disk waits as long as a real one's, in real time
            flush_interval=0.2 * factor,
            checkpoint_interval=0.2 * factor,
            retry_interval=0.5 * factor,
            sync_flush_timeout=30 * factor,
        )
        self._registry = Registry(self.env, configuration, sweeper)

        def fast_store(env: IEnvironment, path: str, settings: StoreSettings) -> MessageStore:
            return MessageStore(self.fast, path, settings)  # type: ignore[arg-type]

        with mock.patch.object(broker_module, "MessageStore", fast_store):
            self._broker = Broker(self.env, configuration, sweeper, BrokerSecurity(), limits, settings=settings)

    async def run(self) -> None:
        """Serve until standard input ends; a line of JSON with the state goes out each second."""
        for service in (self._registry, self._broker):
            service.startService()
            ready: Deferred[Any] = service.ready
            await ready
        self.report()
        os.set_blocking(0, False)
        while not _ends(0):
            await deferLater(_reactor, 1.0, lambda: None)
            self.report()
        await self._broker.stopService()
        await self._registry.stopService()
        await self.fast.threads.stop()

    def report(self) -> None:
        """Print the state."""
        opened = self._broker.opened
        assert opened is not None
        removed = opened.store.cleaner.removed
        state = {
            "began": time.monotonic() - self.fast.clock.passed / self.fast.clock.factor,
            "log": opened.store.log_bounds(),
            "removed": {reason.value: count for reason, count in removed.by_reason.items()},
            "queue files": removed.queue_files,
            "unread": {group: count for group, _, count in opened.group_progress.unread_removals.totals()},
        }
        say(json.dumps(state))


def _ends(descriptor: int) -> bool:
    """Return whether a pipe has ended."""
    try:
        return not os.read(descriptor, 1)
    except BlockingIOError:
        return False


class Reader:
    """
    A group that pulls; C{got} is how many messages it read, C{missed} how many it was moved past.
    """

    def __init__(self, env: RealEnvironment, registry: str, sweeper: Sweeper, group: str) -> None:
        self.client = Client(env, registry, group, embedding=Embedding(sweeper=sweeper))
        self._consumer = PullConsumer(self.client, group)
        self._places: dict[MessageQueue, int] = {}
        self.got = self.missed = 0

    async def begin(self) -> None:
        """Find the queues."""
        self._places = dict.fromkeys(await self._consumer.queues(TOPIC), 0)
        for queue in self._places:
            await self._consumer.commit(queue, 0)

    async def read(self, most: int) -> None:
        """Read what there is, or until there are so many messages in all, queue by queue, and commit."""
        places = list(self._places)
        while places and self.got < most:
            places = [queue for queue in places if await self._pull(queue)]

    async def settle(self) -> None:
        """Read once more from each queue, so that all that was removed before is known."""
        for queue in self._places:
            await self._pull(queue)
            await self._pull(queue)

    async def _pull(self, queue: MessageQueue) -> bool:
        """Pull once and commit; return whether there was something."""
        place = self._places[queue]
        result = await self._consumer.pull(queue, place)
        if result.status is PullStatus.NO_NEW:
            return False
        offsets = [message.queue_offset for message in result.messages]
        first = offsets[0] if offsets else result.next_offset
        if offsets != list(range(first, first + len(offsets))) or first < place:
            raise AssertionError(f"asked for {place}, got {offsets}")
        self.missed += first - place
        self.got += len(offsets)
        self._places[queue] = result.next_offset
        await self._consumer.commit(queue, result.next_offset)
        return True


class Member:
    """One push consumer of the group that keeps up."""

    def __init__(self, env: RealEnvironment, registry: str, sweeper: Sweeper, name: str, seen: dict[int, int]) -> None:
        """@param seen: counts how often each queue offset was delivered, shared by the group."""
        self.client = Client(env, registry, name, embedding=Embedding(sweeper=sweeper))
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, orderly=True, batch=32)
        self.consumer = PushConsumer(self.client, "quick", self._consume, settings)
        self.consumer.subscribe(TOPIC)
        self._seen = seen

    def _consume(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            number = int(message.body.partition(b".")[0])
            self._seen[number] = self._seen.get(number, 0) + 1


class Week:
    """One run; C{rows} has (hour, use of the disk, memory, descriptors, mappings)."""

    def __init__(self, options: argparse.Namespace, root: str, child: subprocess.Popen[bytes], line: bytes) -> None:
        """@param line: the first one that the broker's process has printed."""
        self._options = options
        self._root = root
        self._child = child
        self.env = RealEnvironment(_reactor)
        self._factor = WEEK / (options.minutes * 60)
        self._began = 0.0
        self._printed = b""
        self._state: dict[str, Any] = json.loads(line)
        self._most = 0.0
        self._sending = self.sent = 0
        self.failed: list[str] = []
        self.rows: list[tuple[int, float, int, int, int]] = []

    @property
    def passed(self) -> float:
        """Virtual seconds since the beginning."""
        return float((time.monotonic() - self._began) * self._factor)

    def used(self) -> float:
        """Return the share of the disk in use."""
        total, free = self.env.files.usage(self._root)
        return 1 - free / total

    def _read_state(self) -> None:
        """Take the last whole line that the broker's process has printed."""
        assert self._child.stdout is not None
        with suppress(BlockingIOError):
            while piece := os.read(self._child.stdout.fileno(), 65536):
                self._printed += piece
        lines = self._printed.split(b"\n")
        self._printed = lines[-1]
        for line in lines[:-1]:
            self._state = json.loads(line)
        if self._child.poll() is not None:
            raise AssertionError(f"the broker has ended: {self._child.returncode}")

    def _due(self, total: float) -> int:
        """Return how many messages are to be sent by now."""
        passed = min(self.passed, WEEK)
        wave = 1 - 0.8 * math.sin(2 * math.pi * passed / 86_400) * 86_400 / (2 * math.pi * max(passed, 86_400))
        return int(total * passed / WEEK * wave)

    async def _send(self, producer: Producer, queue: MessageQueue, first: int) -> None:
        messages = [
            Message(topic=TOPIC, body=b"%d" % number + BODY, keys=f"k{number}")
            for number in range(first, first + BATCH)
        ]
        try:
            await producer.send_batch(messages, queue)
        except (CallFailed, PeerRefused) as error:
            self.failed.append(str(error))
        self._sending -= 1

    async def run(self, registry: str) -> bool:
        """Run the week; return whether all was well."""
        sweeper = Sweeper(self.env.clock, MemoryBudget(self.env.clock))
        client = Client(self.env, registry, "producer", embedding=Embedding(sweeper=sweeper))
        producer = Producer(client, "producers", timeout=10.0)
        await producer.start()
        seen: dict[int, int] = {}
        await producer.send(Message(topic=TOPIC, body=b"0" + BODY))  # creates the topic; the number 0 is sent again
        queues = await producer.queues(TOPIC)
        members = [Member(self.env, registry, sweeper, f"member{number}", seen) for number in range(2)]
        for member in members:
            await member.consumer.start()
        eights, late = (Reader(self.env, registry, sweeper, group) for group in ("eight-hours", "late"))
        await eights.begin()
        await late.begin()
        self._began = self._state["began"]
        total = self._options.turnover * self._options.disk * MIB / (len(BODY) + 200)
        hour = eighth = 0
        reads: list[Deferred[None] | None] = [None, None]
        while self.passed < WEEK:
            while self._sending < 16 and self.sent + BATCH <= self._due(total):
                self._sending += 1
                queue = queues[self.sent // BATCH % len(queues)]
                Deferred.fromCoroutine(self._send(producer, queue, self.sent))
                self.sent += BATCH
            await deferLater(_reactor, 0.005, lambda: None)
            for number, read in enumerate(reads):
                if read is not None and read.called:
                    reads[number] = None
                    await read
            if reads[0] is None and self.passed // 28_800 > eighth:
                eighth += 1
                reads[0] = Deferred.fromCoroutine(eights.read(sys.maxsize))
            if reads[1] is None and late.got < self.sent // 2:
                reads[1] = Deferred.fromCoroutine(late.read(self.sent // 2))
            self._most = max(self._most, self.used())
            if self.passed >= hour * 3600:
                self.rows.append((hour, self.used(), *process_figures(self._child.pid)))
                self._read_state()
                if hour % 12 == 0:
                    self._say(f"day {hour / 24:.1f}", seen, eights, late)
                hour += 1
        while self._sending or len(seen) < self.sent or any(read and not read.called for read in reads):
            await deferLater(_reactor, 0.1, lambda: None)
            if self.passed > WEEK + 60 * self._factor:
                break
        await eights.read(sys.maxsize)
        await late.settle()
        for member in members:
            await member.consumer.stop()
        await producer.stop()
        await deferLater(_reactor, 2.0, lambda: None)  # until the broker has printed its state again
        self._read_state()
        for one in (client, eights.client, late.client, *(member.client for member in members)):
            await one.stop()
        return self._judge(seen, eights, late)

    def _say(self, title: str, seen: dict[int, int], eights: Reader, late: Reader) -> None:
        _, used, memory, files, mappings = self.rows[-1]
        say(
            f"{title}: disk {used:.1%} (most {self._most:.1%}), log from {self._state['log'][0] / MIB:.0f} to"
            f" {self._state['log'][1] / MIB:.0f} MiB, {memory} KiB, {files} descriptors, {mappings} mappings,"
            f" sent {self.sent}, failed {len(self.failed)}; quick {len(seen)}, every eight hours {eights.got},"
            f" late {late.got} + {late.missed} removed (the broker counts {self._state['unread'].get('late', 0)})"
        )

    def _judge(self, seen: dict[int, int], eights: Reader, late: Reader) -> bool:
        """Print and return whether the week went well."""
        self._say("end", seen, eights, late)
        missed = sum(1 for number in range(self.sent) if number not in seen)
        again = sum(times - 1 for times in seen.values()) - 1  # number 0 was sent twice
        unread = self._state["unread"]
        # Between a file's removal and the count of its messages the group may have been moved behind them already.
        counted = abs(unread.get("late", 0) - late.missed) <= late.missed // 10
        found = {
            "the disk stays below 85 %": self._most <= 0.85,
            "no send fails": not self.failed,
            "the group that keeps up misses nothing": not missed and not unread.get("quick"),
            "and gets nothing twice": not again,
            "the group that reads every eight hours misses nothing": eights.got == self.sent + 1
            and not eights.missed
            and not unread.get("eight-hours"),
            "the late group is moved, and the broker counts what it missed": late.missed > 0 and counted,
            "memory, descriptors and mappings are flat": are_flat(self.rows),
        }
        for words, holds in found.items():
            say(f"{'yes' if holds else 'NO '}  {words}")
        for name, column in (("memory in KiB", 2), ("descriptors", 3), ("mappings", 4)):
            days = [[row[column] for row in self.rows if row[0] // 24 == day] for day in range(7)]
            say(f"{name}, most of each day: {', '.join(str(max(day)) for day in days if day)}")
        say(f"removed {self._state['removed']}, queue files {self._state['queue files']}")
        say(f"the group that keeps up: {missed} missed, {again} delivered again")
        say(f"most of the disk {self._most:.2%}; first failures: {self.failed[:3]}")
        return all(found.values())


def serve(options: argparse.Namespace) -> None:
    """Be the broker's process, until standard input ends."""
    factor = WEEK / (options.minutes * 60)
    serving = Serving(options.serve, factor, options.disk * MIB // 64, options.port)
    _run(serving.run)


def _run(work: Any) -> None:
    """Run the reactor until a coroutine ends."""
    try:
        react(lambda reactor: Deferred.fromCoroutine(work()))
    except SystemExit as ended:
        if ended.code:
            raise


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="real minutes that the week takes")
    parser.add_argument("--disk", type=int, default=512, help="MiB of the disk")
    parser.add_argument("--turnover", type=float, default=6.0, help="how often the week fills the disk")
    parser.add_argument("--port", type=int, default=0, help="the registry's; the broker's follow it")
    parser.add_argument("--serve", metavar="DIRECTORY", default="", help="be the broker's process")
    options = parser.parse_args()
    if options.serve:
        serve(options)
        return
    options.port = options.port or RealEnvironment(_reactor).network.free_port()
    with small_disk(options.disk) as root:
        words = [f"--minutes={options.minutes}", f"--disk={options.disk}", f"--port={options.port}", f"--serve={root}"]
        command = [sys.executable, "-m", "tests.broker.week", *words]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert child.stdout is not None
        results: list[bool] = []
        try:
            line = child.stdout.readline()
            if not line:
                raise SystemExit("the broker did not start")
            os.set_blocking(child.stdout.fileno(), False)
            week = Week(options, root, child, line)

            async def run() -> None:
                try:
                    results.append(await week.run(f"127.0.0.1:{options.port}"))
                finally:
                    await week.env.threads.stop()

            _run(run)
        finally:
            assert child.stdin is not None
            child.stdin.close()
            code = child.wait(60)
        say(f"the broker's process ended with {code}")
        sys.exit(0 if results == [True] and not code else 1)


if __name__ == "__main__":
    main()
