"""Histories of one message store: appends, flushes, deletions, crashes and faults, interleaved in every way."""

from __future__ import annotations

from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.broker.filter import TagFilter
from smartgo.errors import MessageIllegal, ServiceNotAvailable, StoreError
from smartgo.schema.index import Geometry
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import tag_code
from smartgo.schema.record import decode
from smartgo.schema.topics import SCHEDULE_TOPIC
from smartgo.store.interfaces import IMessageFilter, PutStatus, ReadLimit, ReadResult, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests.fakes import FakeEnvironment
from tests.histories.history import History, Violation
from tests.histories.lanes import Lanes
from tests.histories.storemodel import Deletion, Entry, Found, Key, StoreModel
from tests.sim.disk import Disk

T = TypeVar("T")

ROOT: Final = "/store"
HOSTS: Final = [pack_host("10.0.0.1", 1)] * 9 + [pack_host("2001:db8::1", 2)]
TAGS: Final = [f"t{number}" for number in range(3)]
CODES: Final = [tag_code(tag) for tag in TAGS]
WHOLE_MS: Final = 1 << 62
INT32: Final = 1 << 31

FAILING: Final = (
    None,
    {"reserve"},
    {"map"},
    {"allocate", "create_sparse"},
    {"sync"},
    {"sync_directory"},
    {"replace"},
    {"rename"},
    {"remove"},
    {"reserve", "map", "allocate", "create_sparse", "replace"},
)


class StoreHistory(History):
    """
    One store.

    The model hears of every append. It requires what was promised durable: what a flush covered, what a sender was told
    is flushed, and with C{dispatch_after_flush} what a reader was shown.
    """

    name = "store"
    lengths = (20, 60, 120)

    def begin(self) -> None:
        """Draw the settings, and open the store."""
        chance = self.chance
        sync = chance.random() < 0.5
        after = chance.choice((None, None, None, None, False, True))
        self.settings = StoreSettings(
            log_file_size=chance.choice((2048, 4096, 8192)),
            queue_file_size=chance.choice((100, 400)),
            sync_flush=sync,
            dispatch_after_flush=after,
            index=chance.random() < 0.5,
            index_geometry=Geometry(5, chance.choice((12, 40))),
            open_mappings=chance.choice((4, 16, 100)),
            checkpoint_bytes=chance.choice((500, 1 << 20)),
            flush_bytes=chance.choice((300, 1 << 20)),
            memory_size=chance.choice((1000, 1 << 20)),
            touch_ahead=chance.choice((0, 1024, 1 << 20)),
            disk_free_minimum=0,
        )
        self.memory = 8 << 30 if chance.random() < 0.7 else chance.choice((1, 2000))
        queues = [(f"T{chance.randrange(3)}", chance.randrange(3)) for _ in range(chance.choice((1, 3, 6)))]
        if chance.random() < 0.3:
            queues.append((SCHEDULE_TOPIC, 2))
        self.queues: list[Key] = queues
        self.deletes = chance.random() < 0.3
        self.faults = chance.random() < 0.35
        self.short_of_room = chance.random() < 0.2
        self.numbers = 0
        self.model = StoreModel()
        self.env = self._machine()
        if chance.random() < 0.15:
            self._begin_log(chance.choice((0, 1)))
        self.note("profile", self.settings)
        failure = self._open()
        if failure is not None:
            raise Violation("start", failure.getTraceback())

    # -- the machine -----------------------------------------------------------------------------------------------

    def _begin_log(self, files: int) -> None:
        """Let the log begin so many files before 2 GiB, as if all files before had been removed."""
        size = self.settings.log_file_size or 0
        base = INT32 - files * size
        self.note("the log begins at", base)
        directory = f"{ROOT}/commitlog"
        self.disk.make_directories(directory)
        self.disk.allocate(f"{directory}/{base:020d}", size)
        self.disk.sync_directory(directory)

    @property
    def disk(self) -> Disk:
        """The disk of the machine."""
        disk = self.env.files
        assert isinstance(disk, Disk)
        return disk

    @property
    def lanes(self) -> Lanes:
        """The threads of the process."""
        lanes = self.env.threads
        assert isinstance(lanes, Lanes)
        return lanes

    def _machine(self, disk: Disk | None = None) -> FakeEnvironment:
        env = FakeEnvironment()
        env.rare_paths = self.rare_paths
        env.threads = Lanes(self.chance)  # type: ignore[assignment]
        env.files = Disk(env.clock, self.chance) if disk is None else disk
        env.host.memory = self.memory
        return env

    def _restart(self, power: bool, disk: Disk | None = None) -> None:
        """Begin a new process on what a crash left of the disk."""
        old, before = self.env, disk or self.disk
        env = self._machine()
        env.clock.advance(old.clock.seconds() + self.chance.random() * 3)
        env.clock.wall_offset_ms = old.clock.wall_offset_ms
        env.files = (before.cut_off if power else before.killed)(env.clock, self.chance)
        self.env = env

    def _open(self) -> Failure | None:
        self.lanes.at_once = True
        found: list[object] = []
        open_store(self.env, ROOT, self.settings).addBoth(found.append)
        self.lanes.at_once = False
        if isinstance(found[0], Failure):
            return found[0]
        assert isinstance(found[0], OpenStore)
        self.store = found[0]
        self.failed = False
        self.store.when_failed(self._store_failed)
        return None

    def _store_failed(self, reason: str) -> None:
        self.failed = True

    def _result(self, waiting: Deferred[T]) -> T:
        """Work until a Deferred fires, and return what it fires with."""
        found: list[object] = []
        waiting.addBoth(found.append)
        for _ in range(2000):
            if found:
                break
            self.lanes.drain()
            self.env.clock.advance(0.1)
        else:
            raise Violation("stuck", "a Deferred never fired")
        if isinstance(found[0], Failure):
            found[0].raiseException()
        return found[0]  # type: ignore[return-value]

    def _quiet(self) -> None:
        for _ in range(30):
            self.lanes.drain()
            self.env.clock.advance(0.2)

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one random thing."""
        draw = self.chance.random()
        if draw < 0.45:
            self._send()
        elif draw < 0.50:
            self.store.end_run()
        elif draw < 0.70:
            self.store.end_run()
            for _ in range(self.chance.randrange(1, 6)):
                self.lanes.step()
        elif draw < 0.76:
            self.store.end_run()
            self.env.clock.advance(self.chance.choice((0, 0.1, 0.5, 1, 6)))
        elif draw < 0.84:
            self._glance()
        elif draw < 0.87:
            if self.deletes:
                self._delete()
        elif draw < 0.90:
            if self.faults:
                self.disk.rate = self.chance.choice((0, 0, 0, 0.05, 0.3, 1))
                self.disk.failing = self.chance.choice(FAILING)
                self.note("faults", self.disk.rate, sorted(self.disk.failing or ()))
        elif draw < 0.92:
            if self.short_of_room:
                self.disk.free = self.chance.choice((0, 100, 3000, 1 << 39, 1 << 39))
                self.note("room", self.disk.free)
        elif draw < 0.955:
            self._crash(power=self.chance.random() < 0.5)
        elif draw < 0.97:
            self._stop()
        elif draw < 0.985:
            self._calm()
        else:
            self.env.clock.wall_offset_ms += self.chance.choice((-3_600_000, -5_000, 5_000, 86_400_000))
            self.note("clock", self.env.clock.wall_offset_ms)

    def _send(self) -> None:
        chance = self.chance
        key = chance.choice(self.queues)
        messages, bodies = [], []
        for _ in range(1 if chance.random() < 0.7 else chance.randrange(1, 7)):
            self.numbers += 1
            number = self.numbers
            length = chance.choice((0, 5, 100, 400, chance.randrange(900)))
            body = b"%d:" % number + bytes(chance.choices((0, 0, 1, 65), k=length))
            bodies.append((number, body))
            properties = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number % 5}\x02TAGS\x01{TAGS[number % 3]}".encode()
            messages.append(
                NewMessage(
                    *key,
                    body,
                    properties,
                    chance.randrange(-5, 5),
                    0,
                    1,
                    chance.choice(HOSTS),
                    HOSTS[0],
                    tag_code=CODES[number % 3],
                )
            )
        try:
            appended = self.store.append(messages)
        except (ServiceNotAvailable, MessageIllegal) as error:
            self.note("refused", key, error)
            return
        self.model.append(key, bodies, appended.queue_offset, appended.offsets, appended.end)
        self.note("send", key, len(messages), appended.queue_offset, appended.offset, appended.end)
        waiting = self.store.durable(appended)
        if waiting is not None:
            waiting.addCallback(self._told, appended.end)
        elif self.settings.sync_flush:
            self._told(PutStatus.OK, appended.end)
        if chance.random() < 0.6:
            self.store.end_run()

    def _told(self, status: PutStatus, end: int) -> None:
        self.note("told", end, status.name)
        if status is PutStatus.OK:
            if self.failed:
                raise Violation("false success", f"a message that ends at {end} is flushed, after a flush had failed")
            self.model.require(end)

    def _observe(self) -> None:
        self.model.require(self.store.flushed)

    def _delete(self) -> None:
        self.store.end_run()
        topic = self.chance.choice(self.queues)[0]
        self.note("delete", topic)
        waiting = self.store.delete_topic(topic)
        if isinstance(waiting.result if waiting.called else None, Failure):  # refused before anything was changed
            waiting.addErrback(self._not_deleted, topic)
            return
        if any(self.store.bounds(*key) != (0, 0) for key in sorted(self.model.keys()) if key[0] == topic):
            waiting.addCallbacks(self._false_success, self._not_deleted, callbackArgs=(topic,), errbackArgs=(topic,))
            return
        deletion = self.model.delete(topic)
        waiting.addCallbacks(self._deleted, self._not_deleted, callbackArgs=(deletion, topic), errbackArgs=(topic,))
        if self.chance.random() < 0.6:
            self._quiet()

    def _false_success(self, _: object, topic: str) -> None:
        raise Violation("false success", f"topic {topic} is deleted, and its messages are there")

    def _deleted(self, _: object, deletion: Deletion, topic: str) -> None:
        self.note("deleted", topic)
        deletion.confirmed = True

    def _not_deleted(self, failure: Failure, topic: str) -> None:
        self.note("not deleted", topic, failure.value)
        failure.trap(OSError, ServiceNotAvailable)

    # -- looking ---------------------------------------------------------------------------------------------------

    def _read(self, key: Key, offset: int, filter: IMessageFilter | None) -> tuple[ReadStatus, int, list[Found]]:
        limit = ReadLimit(self.chance.choice((1, 3, 32)), self.chance.choice((100, 1000, 1 << 20)))
        result: ReadResult = self.store.read(*key, offset, limit, filter)
        if result.status is ReadStatus.COLD:
            result = self._result(self.store.read_cold(*key, offset, limit, filter))
        found = []
        for part in result.parts:
            at = 0
            while at < len(part):
                message = decode(part, at)
                found.append(Found(message.queue_offset, message.physical_offset, bytes(message.body)))
                at += message.size
                if (message.topic, message.queue_id) != key:
                    raise Violation("wrong queue", f"{key} at {offset}: {message.topic} {message.queue_id}")
            part.release()
        return result.status, result.next_offset, found

    def _look(self, key: Key, whole: bool) -> None:
        """Read a queue: from its beginning to its end, or once somewhere."""
        low, high = self.store.bounds(*key)
        found: list[Found] = []
        offset = low if whole or low == high else self.chance.randrange(low, high)
        while offset < high:
            status, following, some = self._read(key, offset, None)
            if status is not ReadStatus.FOUND or following != offset + len(some):
                raise Violation("hole", f"{key} at {offset} of {low, high}: {status.name}, {len(some)}, {following}")
            found += some
            offset = following
            if not whole:
                break
        self._seen(self.model.check(key, low, high, found, whole))

    def _seen(self, entries: list[Entry]) -> None:
        if self.settings.dispatches_after_flush:
            self.model.require(max((one.end for one in entries), default=0))

    def _look_by_tag(self, key: Key) -> None:
        low, high = self.store.bounds(*key)
        if key[0] == SCHEDULE_TOPIC or low == high:
            return
        offset = self.chance.randrange(low, high)
        wanted = self.chance.choice(({0}, {1, 2}, {0, 1, 2}))
        status, following, found = self._read(key, offset, TagFilter(frozenset(CODES[one] for one in wanted)))
        passed = self.model.queue(key)[offset:following]
        expected = [one for one in passed if one.number % 3 in wanted]
        if following <= offset or [one.body for one in found] != [one.body for one in expected]:
            raise Violation("filter", f"{key} at {offset} for {wanted}: {len(found)} of {len(expected)}, {status.name}")
        self._seen(expected)

    def _glance(self) -> None:
        self._observe()
        key = self.chance.choice(self.queues)
        try:
            self._look(key, whole=False)
            self._look_by_tag(key)
        except OSError:
            if not self.disk.rate:
                raise

    def _look_at_all(self) -> None:
        for key in sorted(self.model.keys() | set(self.store.queues())):
            self._look(key, whole=True)

    def _find(self) -> None:
        """Search for some messages by their keys."""
        if not self.settings.index or not self.model.log:
            return
        for entry in self.chance.sample(self.model.log, min(3, len(self.model.log))):
            if entry in self.model.queue(entry.key):
                found = self._result(self.store.query(entry.key[0], f"u{entry.number}", 64, 0, WHOLE_MS))
                if entry.physical not in [decode(one).physical_offset for one in found.records]:
                    raise Violation("not found", f"{entry.key} at {entry.offset} by its key")

    def _calm(self) -> None:
        """Let the faults rest, wait until everything is done, and look at everything."""
        self.store.end_run()
        rate, self.disk.rate = self.disk.rate, 0.0
        self._quiet()
        if not self.failed and self.disk.free > 1 << 20:
            if self.store.flushed != self.store.log_bounds()[1]:
                raise Violation("not flushed", f"{self.store.flushed} of {self.store.log_bounds()[1]} after 6 s")
            self._look_at_all()
            self._find()
        self.disk.rate = rate
        self.note("calm", self.store.flushed)

    # -- crashes ---------------------------------------------------------------------------------------------------

    def _crash(self, power: bool) -> None:
        self.store.end_run()
        self._observe()
        self.note("power cut" if power else "killed", self.model.required, self.model.end)
        promised = self.model.required if power else self.model.end
        durable = power
        self._restart(power)
        for _ in range(self.chance.choice((0, 0, 1, 2))):  # crashes of the recovery
            disk, opened = self._recover_badly()
            end = self.store.log_bounds()[1] if disk is None and opened else None
            if end is not None:
                if end < promised:
                    raise Violation("lost", f"the log ends at {end}, and {promised} is promised")
                promised, durable = end, True
            power = self.chance.random() < 0.5
            if power and not durable:
                promised = min(promised, self.model.required)
            self.note("power cut" if power else "killed", "in the recovery", end)
            self._restart(power, disk)
        self._recover(promised)

    def _recover_badly(self) -> tuple[Disk | None, bool]:
        """
        Begin to recover, with faults, or to be stopped in the middle.

        @return: the disk of that moment where it was stopped, and whether the store opened.
        """
        disk = self.disk
        if self.chance.random() < 0.5:
            disk.stop_after = self.chance.randrange(1, 40)
        else:
            disk.rate = self.chance.choice((0.02, 0.1, 0.3))
        failure = self._open()
        disk.rate = 0.0
        if failure is not None and (failure.check(OSError) is None or failure.check(StoreError)):
            raise Violation("start", failure.getTraceback())
        return disk.stopped, failure is None

    def _recover(self, promised: int) -> None:
        failure = self._open()
        if failure is not None and failure.check(OSError) and self.disk.sick:
            self.note("no start", failure.value)  # there is no room: somebody makes some
            self.disk.mend()
            failure = self._open()
        if failure is not None:
            raise Violation("start", failure.getTraceback())
        end = self.store.log_bounds()[1]
        self.note("recovered", end)
        self.model.cut(end, promised)
        for key in sorted(self.model.keys()):
            low, high = self.store.bounds(*key)
            self.model.settle(key, low, [one.commitlog_offset for one in self.store.units(*key, low, high - low)])
        self._look_at_all()

    def _stop(self) -> None:
        """Stop in order, and start again, perhaps after a power cut."""
        self.store.end_run()
        self.disk.mend()
        failed, end = self.failed, self.model.end
        self.note("stop", end)
        try:
            self._result(self.store.close())
        except (OSError, ServiceNotAvailable) as error:
            self.note("stop failed", error)
            failed = True
        failed = failed or self.failed
        if self.disk.exists(f"{ROOT}/abort") != failed:
            raise Violation("abort marker", f"there: {not failed}, failed: {failed}")
        power = not failed and self.chance.random() < 0.3
        self._restart(power)
        self._recover(self.model.required if power and failed else end)

    def finish(self) -> None:
        """End the faults, crash once more, use the store, and look at everything."""
        self.store.end_run()
        self.disk.mend()
        self._crash(power=self.chance.random() < 0.5)
        self._send()
        self._calm()
        self._result(self.store.close())
        if self.env.clock.getDelayedCalls() or self.disk.mappings:
            raise Violation("left", f"{self.env.clock.getDelayedCalls()} {self.disk.mappings}")
