"""Tests of L{smartgo.broker.cluster.damagefetcher}."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.logger import capturedLogs

from smartgo.broker.cluster import damagefetcher
from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ha.interfaces import Tail
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.record import HEAD_SIZE
from smartgo.schema.regions import Region
from tests.fakes import FakeEnvironment
from tests.ha.fakes import FakeLog, FakeTail
from tests.store.stores import ROOT, StoreTestCase, killed, message

MASTER = "master:10911"


class FetchTests(StoreTestCase):
    """A store, and a RocketMQ master's with the same log."""

    def setUp(self) -> None:
        env = FakeEnvironment()
        self.clock = env.clock
        store = self.opened(env)
        self.offsets = self.send(store, *[message(body=b"%d" % number * 20) for number in range(12)])
        self.stopped(store)
        self.master = self.opened(killed(env))
        for number in (4, 5, 9):
            env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[self.offsets[number] + HEAD_SIZE] ^= 1
        self.store = self.opened(env)
        self.asked: list[int] = []
        self.missing: set[int] = set()
        self.assertEqual(len(self.read_all(self.store)), 9)
        self.fetcher = DamageFetcher(self.clock.seconds, self.store, FakeTail({MASTER: None}), self.ask)

    def ask(self, address: str, command: Command, timeout: float) -> Deferred[Command]:
        """Answer as the master does."""
        self.assertEqual((address, command.code), (MASTER, RequestCode.VIEW_MESSAGE_BY_ID))
        header: ViewMessageRequest = command.read(ViewMessageRequest)
        self.asked.append(header.offset)
        if header.offset in self.missing:
            answer: Deferred[Command] = Deferred()
            answer.callback(command.answer(ResponseCode.SYSTEM_ERROR, "no message"))
            return answer
        return self.master.at(header.offset).addCallback(lambda body: command.answer(ResponseCode.SUCCESS, body=body))

    def repair(self) -> None:
        """Repair the store once."""
        self.now(Deferred.fromCoroutine(self.fetcher.repair(MASTER)))

    def test_repaired(self) -> None:
        """The damaged messages are fetched, one by one, and delivered."""
        self.repair()
        self.assertEqual(self.asked, [self.offsets[number] for number in (4, 5, 9)])
        self.assertEqual(self.bodies(self.store), [b"%d" % number * 20 for number in range(12)])
        self.repair()
        self.assertEqual(len(self.asked), 3)

    def test_master_lacks_it(self) -> None:
        """What the master does not have stays damaged, and is not asked for again; the others are put right."""
        self.missing = {self.offsets[5]}
        self.repair()
        self.repair()
        self.assertEqual(self.asked, [self.offsets[number] for number in (4, 5, 9)])
        self.assertEqual([one.offset for one in self.store.damage.regions], [self.offsets[5]])
        self.assertEqual(len(self.read_all(self.store)), 11)

    def test_master_away(self) -> None:
        """A master that cannot be asked is asked again the next time."""
        self.fetcher = DamageFetcher(
            self.clock.seconds, self.store, FakeTail({MASTER: None}), lambda *_: fail(CallFailed("away"))
        )
        self.failureResultOf(Deferred.fromCoroutine(self.fetcher.repair(MASTER)), CallFailed)
        self.assertEqual(len(self.store.damage), 3)

    def test_rocketmq_left_alone(self) -> None:
        """A RocketMQ broker that is not to be asked for messages is left alone; the damage stays."""
        self.fetcher = DamageFetcher(self.clock.seconds, self.store, FakeTail({MASTER: None}))
        self.repair()
        self.assertEqual((len(self.store.damage), self.asked), (3, []))


class FetchBytesTests(StoreTestCase):
    """A store, and another broker's log with the same bytes."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.clock = self.env.clock
        store = self.opened(self.env)
        self.offsets = self.send(store, *[message(body=b"%d" % number * 20) for number in range(12)])
        self.stopped(store)
        self.log = self.env.files.files[f"{ROOT}/commitlog/{0:020d}"]
        self.end = store.log_bounds()[1]
        self.other = FakeLog(bytes(self.log.data[: self.end]), 0, len(self.log.data))
        for number in (4, 5, 9):
            self.log.data[self.offsets[number] + HEAD_SIZE] ^= 1
        self.store = self.opened(self.env)
        self.assertEqual(len(self.read_all(self.store)), 9)
        self.tail = FakeTail({MASTER: self.other})
        self.fetcher = DamageFetcher(self.clock.seconds, self.store, self.tail)

    def repair(self) -> None:
        """Repair the store once."""
        self.now(Deferred.fromCoroutine(self.fetcher.repair(MASTER)))

    def given_up(self) -> int:
        """Repair twice, and return how many regions were not asked for the second time."""
        self.repair()
        asked = len(self.tail.asked)
        self.repair()
        self.assertEqual(len(self.tail.asked), asked)
        return len(self.store.damage)

    def test_repaired(self) -> None:
        """The bytes of each region are fetched and delivered; the log and a count say so."""
        with capturedLogs() as logs:
            self.repair()
        self.assertEqual(self.bodies(self.store), [b"%d" % number * 20 for number in range(12)])
        self.assertEqual((len(self.store.damage), self.store.damage.repaired), (0, 3))
        said = [one["source"] for one in logs if "was put right" in one["log_format"]]
        self.assertEqual(said, [f" with the bytes of {MASTER}"] * 3)
        self.assertEqual(bytes(self.log.data[: self.end]), bytes(self.other.data))

    def refuse(self, code: ResponseCode) -> None:
        """Let the other broker refuse what has the first region."""
        asked = self.tail.ask

        def ask(master: str, begin: int, end: int, **wanted: bool) -> Deferred[Tail | None]:
            if begin <= self.offsets[4] < end:
                return fail(PeerRefused(code, "Input/output error"))
            return asked(master, begin, end, **wanted)

        self.patch(self.tail, "ask", ask)

    def test_one_refused(self) -> None:
        """A region that the other broker cannot read holds up no other, and is asked for again later."""
        self.refuse(ResponseCode.SYSTEM_ERROR)
        self.assertEqual(self.given_up(), 1)
        self.assertEqual(self.store.damage.regions[0].offset, self.offsets[4])

    def test_all_refused(self) -> None:
        """A broker that lets us ask nothing is asked nothing more."""
        self.refuse(ResponseCode.NO_PERMISSION)
        self.failureResultOf(Deferred.fromCoroutine(self.fetcher.repair(MASTER)), PeerRefused)
        self.assertEqual(len(self.store.damage), 3)

    def test_many_bytes(self) -> None:
        """A region that is longer than one answer is fetched in several."""
        self.patch(damagefetcher, "TAIL_LIMIT", 100)
        self.repair()
        self.assertEqual((len(self.store.damage), len(self.read_all(self.store))), (0, 12))
        self.assertTrue(all(end - begin <= 100 for _, begin, end in self.tail.asked))

    def test_other_log(self) -> None:
        """Bytes of a log that differs beside the region are not taken, nor asked for again."""
        for number in (3, 6, 8):
            self.other.data[self.offsets[number] + HEAD_SIZE] ^= 1
        self.assertEqual(self.given_up(), 3)

    def test_damaged_there(self) -> None:
        """Bytes that are damaged there, too, are not taken; they are asked for again when they may be right."""
        self.other.data[self.offsets[9] + HEAD_SIZE] ^= 1
        self.assertEqual(self.given_up(), 1)
        self.other.data[self.offsets[9] + HEAD_SIZE] ^= 1
        self.clock.advance(600)
        self.repair()
        self.assertEqual(len(self.store.damage), 0)

    def test_other_message(self) -> None:
        """A valid record that is not the one that the queue knows there is not taken."""
        first, second = self.offsets[4], self.offsets[5]
        record = bytearray(self.other.data[first:second])
        at = record.index(b"\x00\x00\x00\x00\x00\x00\x00\x04")  # its queue offset
        record[at : at + 8] = b"\x00\x00\x00\x00\x00\x00\x00\x02"
        self.other.data[first:second] = record
        self.assertEqual(self.given_up(), 1)
        self.assertEqual(self.store.damage.regions[0].offset, first)

    def test_not_there_yet(self) -> None:
        """A log that has not come so far is asked again; one that begins later is not."""
        whole = bytes(self.other.data)
        del self.other.data[self.offsets[9] :]
        self.repair()
        self.assertEqual(len(self.store.damage), 1)
        self.other.data += whole[self.offsets[9] :]
        self.repair()
        self.assertEqual(len(self.store.damage), 0)
        self.store.damage.add([Region(self.offsets[2], self.offsets[3] - self.offsets[2])])
        self.other.forget(self.offsets[3])
        self.assertEqual(self.given_up(), 1)
