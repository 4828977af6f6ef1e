"""Tests of L{smartgo.broker.cluster.damagefetcher}."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail

from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.errors import CallFailed
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.record import HEAD_SIZE
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed, message


class FetchTests(StoreTestCase):
    """A store, and the master's with the same log."""

    def setUp(self) -> None:
        env = FakeEnvironment()
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
        self.fetcher = DamageFetcher(self.ask, self.store)

    def ask(self, address: str, command: Command, timeout: float) -> Deferred[Command]:
        """Answer as the master does."""
        self.assertEqual((address, command.code), ("master:10911", RequestCode.VIEW_MESSAGE_BY_ID))
        header: ViewMessageRequest = command.read(ViewMessageRequest)
        self.asked.append(header.offset)
        if header.offset in self.missing:
            answer: Deferred[Command] = Deferred()
            answer.callback(command.answer(ResponseCode.SYSTEM_ERROR, "no message"))
            return answer
        return self.master.at(header.offset).addCallback(lambda body: command.answer(ResponseCode.SUCCESS, body=body))

    def repair(self) -> None:
        """Repair the store once."""
        self.now(Deferred.fromCoroutine(self.fetcher.repair("master:10911")))

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
        self.fetcher = DamageFetcher(lambda *_: fail(CallFailed("away")), self.store)
        self.failureResultOf(Deferred.fromCoroutine(self.fetcher.repair("master:10911")), CallFailed)
        self.assertEqual(len(self.store.damage), 3)
