"""
Histories of a whole broker: what clients ask over the wire, crashes and faults of its machine, and the wall clock.

Everything goes through the product's own classes, from the frame to the disk: C{Broker} with its topic table and the
late saves of it, delayed messages, retries, consumer offsets. Environment, wires and disks are fakes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import msgspec
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.broker import Broker
from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.settings.storesettings import store_settings
from smartgo.config.loading import Configuration, Surroundings, load
from smartgo.schema.batch import encode_items
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import OffsetResponse, QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullResponse
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.headers.topics import CreateTopicRequest, DeleteTopicRequest, TopicConfigRequest
from smartgo.schema.properties import encode
from smartgo.store.interfaces import IArrivalListener
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests.broker.fakecluster import pull_command, records, send_command
from tests.histories.brokermodel import BrokerModel, Seen, Sent, State
from tests.histories.caller import Caller
from tests.histories.history import History, Violation
from tests.histories.storehistory import FAILING, TAGS
from tests.histories.storemodel import Key
from tests.histories.world import Machine, World
from tests.remoting.doubles import sweeper_of

DELAYS: Final = (1.0, 5.0, 10.0)
GROUP: Final = "readers"
QUEUES: Final = 4  # of a topic that a send makes

ENDLESS: Final = 1 << 62

_SETTLE: Final = 26.0  # seconds: the longest delay, the saves of all tables, and a retry of each
_START: Final = 30.0  # seconds within which a broker is ready
_PULLED: Final = 0
_NOTHING: Final = (19, 20, 21)
_UNKNOWN_TOPIC: Final = 17


@implementer(IArrivalListener)
class Arrivals:
    """The latest time at which each message became readable."""

    def __init__(self, world: World, store: OpenStore) -> None:
        self._world = world
        self._since = world.clock.seconds()
        self._ends = {key: store.bounds(*key)[1] for key in store.queues()}
        self._times: dict[Key, list[tuple[int, int, float]]] = {}
        self._forgotten: set[str] = set()

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Remember the time. Of several runs that are told one after another each has the last one's end."""
        begin = self._ends.get((topic, queue_id), 0)
        self._ends[topic, queue_id] = next_offset
        self._times.setdefault((topic, queue_id), []).append((begin, next_offset, self._world.clock.seconds()))

    def forget(self, topic: str) -> None:
        """A topic is deleted: its offsets begin anew."""
        self._forgotten.add(topic)

    def when(self, key: Key, offset: int) -> float:
        """Return when a message was there at the latest: at the broker's start, where it did not come later."""
        if key[0] in self._forgotten:
            return self._world.clock.seconds()
        times = [at for begin, end, at in self._times.get(key, []) if begin <= offset < end]
        return times[-1] if times else self._since


@dataclass
class Committed:
    """
    The committed offsets of a group in one queue.

    @ivar offsets: all that it said.
    @ivar saved: the smallest offset that its next start may find.
    """

    offsets: list[int] = field(default_factory=list)
    saved: int = 0


class BrokerHistory(History):
    """One broker and its clients."""

    name = "broker"
    lengths = (15, 40, 80)
    port: ClassVar[int] = 10911

    def begin(self) -> None:
        """Draw a profile, and start the broker."""
        chance = self.chance
        self.world = World(chance, self.rare_paths)
        self.machine = self.world.machine()
        self.machine.memory = 8 << 30 if chance.random() < 0.8 else chance.choice((1, 2000))
        self.sync = chance.random() < 0.4
        self.flags = {
            "brokerName": "broker-a",
            "storePathRootDir": "/store",
            "mappedFileSizeCommitLog": "1048576",
            "messageDelayLevel": " ".join(f"{one:.0f}s" for one in DELAYS),
            "flushDiskType": "SYNC_FLUSH" if self.sync else "ASYNC_FLUSH",
            "messageIndexEnable": chance.choice(("true", "false")),
            "maxHashSlotNum": "16",
            "maxIndexNum": "40",
        }
        self.sizes = {
            "log_file_size": chance.choice((4096, 8192)),
            "queue_file_size": chance.choice((100, 400)),
            "open_mappings": chance.choice((16, 100)),
            "checkpoint_bytes": chance.choice((500, 1 << 20)),
            "flush_bytes": chance.choice((300, 1 << 20)),
            "touch_ahead": chance.choice((0, 1 << 20)),
        }
        self.world.lazy = self.lazy = chance.random() < 0.4
        self.deletes = chance.random() < 0.5
        self.delays = chance.random() < 0.5
        self.faults = chance.random() < 0.25
        self.topics = [f"T{number}" for number in range(chance.choice((1, 3)))]
        self.model = BrokerModel()
        self.queues: dict[str, int] = {}
        self.numbers = 0
        self.waiting: set[int] = set()  # messages whose sends are not answered
        self.commits: dict[Key, Committed] = {}
        self.recovered = ENDLESS  # where the log ended after the last crash
        self.stopping = False
        self.stuck = False  # the store failed: sends are refused until the next start
        self.note("profile", sorted(self.flags.items()), sorted(self.sizes.items()), self.lazy)
        self.caller = Caller(self.world, self.port)
        self.service = self.start(self.machine, self.flags)

    # -- the broker ------------------------------------------------------------------------------------------------

    @property
    def broker(self) -> OpenBroker:
        """The broker, whose store is open."""
        assert self.service.opened is not None
        return self.service.opened

    def configuration(self, flags: dict[str, str]) -> Configuration:
        """Return a configuration."""
        return load(Surroundings("testhost", "/home/test", lambda name: None), flags=flags)

    def settings(self, configuration: Configuration) -> StoreSettings:
        """Return the store's settings: files that are soon full."""
        return msgspec.structs.replace(store_settings(configuration.store), disk_free_minimum=0, **self.sizes)

    def launch(self, machine: Machine, flags: dict[str, str]) -> tuple[Broker, list[object]]:
        """Begin a broker's process; the list gets what its start ends with."""
        configuration, env = self.configuration(flags), machine.begin()
        broker = Broker(env, configuration, sweeper_of(env.clock), settings=self.settings(configuration))
        self.world.dead.append(broker)
        found: list[object] = []
        broker.store_opened.addCallbacks(self._recovered, lambda failure: None)
        broker.ready.addBoth(found.append)
        broker.startService()
        return broker, found

    def _recovered(self, store: OpenStore) -> None:
        """Remember what a crash left of the log, before anything is appended to it."""
        self.recovered = min(self.recovered, store.log_bounds()[1])

    def start(self, machine: Machine, flags: dict[str, str]) -> Broker:
        """Start a broker. @raise Violation: it does not start."""
        for attempt in range(3):
            broker, found = self.launch(machine, flags)
            for _ in range(int(_START)):
                if found:
                    break
                self.world.run(1.0)
            if not found:
                raise Violation("start", "the broker is not ready after 30 s")
            if not isinstance(found[0], Failure):
                break
            if attempt == 2 or not (found[0].check(OSError) and machine.disk.sick):
                raise Violation("start", found[0].getTraceback())
            self.note("no start", found[0].value)
            machine.end(power=False)
            machine.disk.mend()
        assert broker.opened is not None
        store = broker.opened.store
        self.arrivals = Arrivals(self.world, store)
        store.subscribe(self.arrivals)
        store.when_failed(self._store_failed)
        self.stuck = False
        self.note("started", store.log_bounds())
        return broker

    def _store_failed(self, reason: str) -> None:
        self.note("the store failed")
        self.stuck = True

    @property
    def end(self) -> int:
        """The end of the broker's log."""
        return self.broker.store.log_bounds()[1]

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do one random thing."""
        self.chosen()()
        self.observe()

    def observe(self) -> None:
        """Require from now on what is flushed."""
        if self.service.opened is not None:
            self.model.required = max(self.model.required, self.broker.store.flushed)

    def chosen(self) -> Callable[[], None]:
        """Draw what to do."""
        draw = self.chance.random()
        for limit, choice in (
            (0.42, self.send),
            (0.50, lambda: self.world.run(self.chance.choice((0.0, 0.05, 0.3, 0.6, 1.0, 3.0, 11.0)))),
            (0.56, self.send_back if self.delays else self.send),
            (0.64, self.read),
            (0.69, self.commit),
            (0.75, self.delete if self.deletes else self.send),
            (0.80, self.resize if self.deletes else self.send),
            (0.85, self.set_clock),
            (0.89, self.break_disk),
            (0.95, self.crash),
            (0.97, self.stop),
        ):
            if draw < limit:
                return choice
        return self.settle

    def message(self, key: Key, batch: int = 0, delay: float = 0.0) -> Sent:
        """Make up a message."""
        self.numbers += 1
        chance = self.chance
        body = b"%d:" % self.numbers + bytes(chance.choices((0, 1, 65), k=chance.choice((0, 5, 100, 400))))
        at = self.world.clock.seconds()
        wall_ms = self.machine.wall_offset_ms + round(at * 1000)
        sent = Sent(self.numbers, key, body, at, wall_ms, batch or self.numbers, self.model.crashes, delay)
        self.model.sent[sent.number] = sent
        return sent

    def send(self) -> None:
        """Send one message, some of them without waiting, or a batch."""
        chance = self.chance
        topic = chance.choice(self.topics)
        key = (topic, chance.randrange(min(self.queues.get(topic) or QUEUES, QUEUES)))
        draw = chance.random()
        if draw < 0.15:
            self._send_batch(key)
        elif draw < 0.4 and self.delays:
            level = chance.randrange(len(DELAYS))
            for _ in range(chance.choice((1, 1, 4))):
                self._send_one(key, level + 1)
        else:
            for _ in range(chance.choice((1, 1, 3))):
                self._send_one(key)
        if chance.random() < 0.8:
            self.world.run(chance.choice((0.0, 0.0, 0.01)))

    def _properties(self, number: int, **more: str) -> dict[str, str]:
        return {"UNIQ_KEY": f"u{number}", "KEYS": f"k{number % 5}", "TAGS": TAGS[number % 3], **more}

    def _send_one(self, key: Key, level: int = 0) -> None:
        one = self.message(key, delay=DELAYS[level - 1] if level else 0.0)
        more = {"DELAY": str(level)} if level else {}
        command = send_command(key[0], one.body, key[1], properties=self._properties(one.number, **more))
        self._post(command, [one])

    def _send_batch(self, key: Key) -> None:
        first = self.message(key)
        several = [first, *(self.message(key, first.number) for _ in range(self.chance.randrange(1, 4)))]
        items = [(0, one.body, encode(self._properties(one.number))) for one in several]
        self._post(send_command(*key[:1], encode_items(items), key[1], code=RequestCode.SEND_BATCH_MESSAGE), several)

    def _post(self, command: Command, several: Sequence[Sent]) -> None:
        self.note("send", several[0].number, len(several), several[0].key, several[0].delay)
        self.waiting.update(one.number for one in several)
        self.caller.send(command, lambda answer: self._answered(answer, several))

    def _answered(self, answer: Command | None, several: Sequence[Sent]) -> None:
        """A send was answered, or will never be."""
        self.waiting.difference_update(one.number for one in several)
        if answer is None:
            self.note("no answer", several[0].number)
            return
        if answer.code not in (0, 10, 11, 12):
            self.note("refused", several[0].number, answer.code)
            if self.stopping:  # what waited for the disk is refused, and stored
                return
            for one in several:
                self.model.answered(one, answer.code, -1, -1, -1)
            return
        header = answer.read(SendResponse)
        self.note("answered", several[0].number, answer.code, header.msg_id[-12:], header.queue_offset)
        for place, (one, name) in enumerate(zip(several, header.msg_id.split(","), strict=True)):
            physical = int(name[-16:], 16)
            self.model.answered(one, answer.code, physical, header.queue_offset + place, physical + 1)
            if answer.code == 0:
                self.acknowledged(one)
        self.queues[several[0].key[0]] = max(self.queues.get(several[0].key[0], 0), QUEUES)

    def acknowledged(self, one: Sent) -> None:
        """A send was answered with code 0."""
        if self.sync:
            if one.physical >= self.broker.store.flushed:
                raise Violation("false success", f"message {one.number} has code 0 and is not flushed")
            self.model.required = max(self.model.required, one.below)

    def send_back(self) -> None:
        """Give a message back that was read: it comes again in the retry topic."""
        known = [one for one in self.model.sent.values() if one.state is State.OWED and not one.delay]
        known = [one for one in known if one.physical >= self.model.first and one.number not in self.model.retries]
        if not known:
            return
        one = self.chance.choice(known)
        level = self.chance.randrange(1, len(DELAYS) + 1)
        header = SendBackRequest(offset=one.physical, group=GROUP, delay_level=level)
        at = self.world.clock.seconds()
        wall_ms = self.machine.wall_offset_ms + round(at * 1000)
        again = Sent(
            one.number, self.model.retry_key, one.body, at, wall_ms, one.number, self.model.crashes, DELAYS[level - 1]
        )
        self.model.retries[one.number] = again
        answer = self.caller.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        self.note("sent back", one.number, level, None if answer is None else answer.code)
        if answer is not None and answer.code == 0:  # one that is refused may be stored: consumers send it again
            self.model.answered(again, answer.code, -1, -1, self.end)

    def commit(self) -> None:
        """Say how far a group has come."""
        key = (self.chance.choice(self.topics), 0)
        offset = self.chance.randrange(0, 20)
        header = UpdateOffsetRequest(consumer_group=GROUP, topic=key[0], queue_id=0, commit_offset=offset)
        answer = self.caller.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        self.note("commit", key, offset, None if answer is None else answer.code)
        if answer is None or answer.code == 0:
            said = self.commits.setdefault(key, Committed())
            said.offsets.append(offset)
            said.saved = min(said.saved, offset)

    def delete(self) -> None:
        """Delete a topic; some sends may overtake the answer."""
        topic = self.chance.choice(self.topics)
        numbers = {one.number for one in self.model.of_topic(topic)}
        found: list[Command | None] = []
        self.note("delete", topic)
        self.arrivals.forget(topic)
        command = Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic))
        self.caller.send(command, found.append)
        if self.chance.random() < 0.3:
            self._send_one((topic, self.chance.randrange(QUEUES)))
        for _ in range(200):
            if found:
                break
            self.world.run(0.05)
        done = bool(found) and found[0] is not None and found[0].code == 0
        self.note("deleted" if done else "not deleted", topic)
        self.model.deleted(topic, numbers, done)
        self.queues[topic] = 0

    def resize(self) -> None:
        """Give a topic fewer queues, or more, or make it."""
        topic = self.chance.choice(self.topics)
        queues = self.chance.choice((1, 2, 4, 6))
        header = CreateTopicRequest(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        self.model.resized(topic, queues)
        answer = self.caller.ask(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header))
        self.note("resize", topic, queues, None if answer is None else answer.code)
        self.queues[topic] = queues

    def set_clock(self) -> None:
        """Set the wall clock; what is on its way is stored by the old one or the new one."""
        self.machine.wall_offset_ms += self.chance.choice((-3_600_000, -5_000, 5_000, 86_400_000))
        now_ms = self.machine.wall_offset_ms + round(self.world.clock.seconds() * 1000)
        for number in self.waiting:
            one = self.model.sent[number]
            one.wall_ms = min(one.wall_ms, now_ms)
        self.note("clock", self.machine.wall_offset_ms)

    def break_disk(self) -> None:
        """Let the disk fail, be full, or be well again."""
        if not self.faults:
            return
        disk = self.machine.disk
        draw = self.chance.random()
        if draw < 0.4:
            disk.mend()
        elif draw < 0.6:
            disk.free = self.chance.choice((0, 100, 3000))
        else:
            disk.rate = self.chance.choice((0.05, 0.3, 1))
            disk.failing = self.chance.choice(FAILING)
        self.note("disk", disk.free, disk.rate, sorted(disk.failing or ()))

    # -- looking ---------------------------------------------------------------------------------------------------

    def pull(self, key: Key, offset: int, tags: str = "*") -> tuple[int, PullResponse | None, list[Seen]]:
        """Pull once; code -1 where there is no answer."""
        command = pull_command(*key, offset, subscription=tags, sys_flag=4, max_msg_nums=self.chance.choice((1, 3, 32)))
        answer = self.caller.ask(command)
        if answer is None:
            return -1, None, []
        if answer.code not in (_PULLED, *_NOTHING):
            return answer.code, None, []
        header = answer.read(PullResponse)
        seen = [
            Seen(
                one.queue_offset,
                one.physical_offset,
                bytes(one.body),
                one.stored_ms,
                self.arrivals.when(key, one.queue_offset),
            )
            for one in (records(answer.body) if answer.code == _PULLED else [])
        ]
        return answer.code, header, seen

    def read(self) -> None:
        """Read a queue somewhere, perhaps by a tag, and look at what comes."""
        key = (self.chance.choice(self.topics), self.chance.randrange(QUEUES))
        tag = self.chance.choice(("*", *TAGS))
        code, header, seen = self.pull(key, self.chance.randrange(0, 10), tag)
        self.note("read", key, tag, code, [one.offset for one in seen])
        if header is None:
            return
        for one in seen:
            number = int(one.body.partition(b":")[0])
            if tag != "*" and TAGS[number % 3] != tag:
                raise Violation("filter", f"message {number} in {key} for {tag}")
            sent = self.model.sent.get(number)
            if sent is None or sent.body != one.body:
                raise Violation("phantom", f"{one.body[:40]!r} in {key}")
            if self.broker.store.settings.dispatches_after_flush:
                self.model.required = max(self.model.required, one.physical + 1)

    def read_all(self, key: Key) -> list[Seen] | None:
        """Read a queue from its beginning to its end; C{None}: the broker does not have it."""
        offset, found, moved = 0, list[Seen](), 0
        while True:
            code, header, seen = self.pull(key, offset)
            if code == -1:
                raise Violation("no answer", f"a pull of {key} at {offset}")
            if header is None:
                return None
            found += seen
            if code == _PULLED:
                offset = header.next_begin_offset
            elif code != 21 or moved or header.max_offset == 0:
                return found
            else:
                offset, moved = header.next_begin_offset, 1

    def look(self, quiet: bool) -> None:
        """Read everything, and compare it with what was sent."""
        self.world.lazy = False
        keys = {one.key for one in self.model.everything()} | {
            key for key in self.broker.store.queues() if key[0] in self.topics or key == self.model.retry_key
        }
        found, readable = {}, dict[Key, bool]()
        for key in sorted(keys):
            messages = self.read_all(key)
            readable[key] = messages is not None
            found[key] = messages or []
            self.note("found", key, readable[key], [one.body.partition(b":")[0].decode() for one in found[key]])
        self.model.check(found, lambda key: readable.get(key, False), quiet, self.world.clock.seconds())
        self.world.lazy = self.lazy

    def settle(self) -> None:
        """End the faults, wait until all that is due was done, and look at everything."""
        self.world.lazy = False
        self.machine.disk.mend()
        if self.stuck:
            self._end(power=False)
        self.world.run(_SETTLE)
        if self.waiting:
            raise Violation("no answer", f"sends {sorted(self.waiting)} were never answered")
        self.model.saved()
        self._check_commits(saved=True)
        self.observe()
        if self.broker.store.flushed != self.end:
            raise Violation("not flushed", f"{self.broker.store.flushed} of {self.end}")
        self.look(quiet=True)
        self.world.lazy = self.lazy
        self.note("settled", self.end)

    # -- crashes ---------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Kill the process, or cut the power."""
        self._end(power=self.chance.random() < 0.4)

    def _end(self, power: bool) -> None:
        self.observe()
        self.note("power cut" if power else "killed", self.model.required, self.end)
        lost = power
        self.recovered = ENDLESS
        self._uncommit(keep=not power)
        self.machine.end(power)
        for _ in range(self.chance.choice((0, 0, 0, 1, 2))):
            again = self.chance.random() < 0.4
            lost = lost or again
            self._start_badly(again)
            if again:
                self._uncommit()
        self._restarted(lost)

    def _uncommit(self, keep: bool = False) -> None:
        """Expect groups anywhere before what they said: a start takes back what is beyond the end of a queue."""
        for key, said in self.commits.items():
            said.saved = min(said.saved, self.broker.store.bounds(*key)[1]) if keep else 0

    def _start_badly(self, power: bool) -> None:
        """Begin a broker that dies while it starts, at a random operation on its disk."""
        disk = self.machine.disk
        disk.stop_after = self.chance.randrange(1, 120)
        self.launch(self.machine, self.flags)
        self.world.run(0.5)
        self.note("power cut" if power else "killed", "in the start", disk.stopped is not None)
        self.machine.end(power, disk.stopped)
        self.model.crashes += 1

    def _restarted(self, power: bool) -> None:
        self.service = self.start(self.machine, self.flags)
        self.model.cut(self.recovered, power)
        self.waiting.clear()
        self._check_commits()
        for topic in self.topics:
            self.queues[topic] = self._size_of(topic)
            if power and not self.sync:
                self.model.forgotten(topic, self.queues[topic])
        self.look(quiet=False)
        self.decide()

    def decide(self) -> None:
        """After a start, messages whose sends were never answered are there, or will never be."""
        self.world.lazy = False
        if not self.machine.disk.sick:
            self.world.run(0.7)
            self.look(quiet=False)
        self.world.lazy = self.lazy

    def _size_of(self, topic: str) -> int:
        answer = self.caller.ask(Command.request(RequestCode.GET_TOPIC_CONFIG, TopicConfigRequest(topic=topic)))
        if answer is None or answer.code:
            return 0
        return TopicConfig.decode(answer.body).read_queue_nums

    def _check_commits(self, saved: bool = False) -> None:
        """
        After a start no group is further than it ever said, nor before what it said when all was quiet.

        @param saved: all that was said is on the disk now.
        """
        for key, said in sorted(self.commits.items()):
            header = QueryOffsetRequest(
                consumer_group=GROUP, topic=key[0], queue_id=key[1], set_zero_if_not_found=False
            )
            answer = self.caller.ask(Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header))
            if answer is None or answer.code:
                continue
            offset = answer.read(OffsetResponse).offset
            if not said.saved <= offset <= max(said.offsets):
                raise Violation("stale commit", f"{key}: {offset}, after {said.offsets}, saved {said.saved}")
            if saved:
                said.offsets, said.saved = [offset], offset

    def stop(self) -> None:
        """Stop in order, and start again."""
        self.machine.disk.mend()
        self.world.lazy = False
        self.note("stop", self.end)
        self.stopping = True
        found: list[object] = []
        self.service.stopService().addBoth(found.append)
        for _ in range(30):
            if found:
                break
            self.world.run(1.0)
        if not found:
            raise Violation("stop", "the broker does not stop within 30 s")
        self.stopping = False
        failed = self.stuck
        left = [one for one in self.machine.env.clock.getDelayedCalls() if one.active()]
        if left or self.machine.disk.mappings:
            raise Violation("left", f"{left} {self.machine.disk.mappings}")
        power = self.chance.random() < 0.3
        self.recovered = ENDLESS
        self._uncommit(keep=not power)
        self.machine.end(power)
        self.world.lazy = self.lazy
        self.service = self.start(self.machine, self.flags)
        if not failed:
            self.model.required = max(self.model.required, self.model.promised)
        crashes = self.model.crashes
        self.model.cut(self.recovered, power)
        if not failed:
            self.model.crashes = crashes
        self.waiting.clear()
        self.look(quiet=False)

    def finish(self) -> None:
        """End the faults, crash once more, and look at everything when all is quiet."""
        self.machine.disk.mend()
        self.crash()
        self.send()
        self.settle()
        self.stop()
