"""Queues of topics that the master deleted between two copies of its tables (docs/spec/ha#tables)."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.cluster.deletedqueues import DeletedQueues
from smartgo.broker.tables.topics import READ, WRITE, TopicTable, topic_config
from smartgo.errors import PeerRefused
from smartgo.schema.bodies import DataVersion, MissingQueues, QueueNames
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.consumequeue import Unit
from smartgo.schema.headers.topics import DeleteTopicRequest
from tests.broker.cluster.test_replication import SLAVE, Pair, PairCase
from tests.broker.doubles import FakeStore
from tests.broker.fakecluster import pull_command, records
from tests.fakes import FakeClock

_MASTER = "127.0.0.1:10911"


def delete(pair: Pair, topic: str) -> None:
    """Delete a topic at the master."""
    answer = pair.ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic)))
    if answer.code:
        raise AssertionError(answer.remark)


class PairTests(PairCase):
    """A master and its slave, in memory."""

    def bounds(self, pair: Pair, topic: str, queues: int = 2) -> list[tuple[int, int]]:
        """The bounds of the slave's first queues of a topic."""
        return [pair.followed.store.bounds(topic, queue_id) for queue_id in range(queues)]

    def replicator(self, pair: Pair) -> Any:
        """What copies the tables."""
        return cast("Any", pair.followed.replication).replicator

    def brief(self, pair: Pair) -> None:
        """Create, use and delete a topic between two copies."""
        pair.pump(11.0)
        pair.send("Brief", b"1")
        delete(pair, "Brief")
        pair.pump(0.3)
        self.assertNotIn("Brief", pair.followed.topics)
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 1), (0, 0)])

    def test_in_no_table(self) -> None:
        """A queue whose topic was created and deleted between two copies is removed; all others stay."""
        pair = self.start()
        pair.send("T", b"1")
        self.brief(pair)
        pair.pump(11.0)
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 0), (0, 0)])
        self.assertEqual(self.bounds(pair, "T"), [(0, 1), (0, 0)])
        self.assertEqual(*pair.logs())
        pair.stop_slave()
        pair.start_slave()
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 0), (0, 0)])
        pair.send("Brief", b"new")
        pair.pump(11.0)
        self.assertEqual([one.body for one in self.pulled(pair, "Brief")], [b"new"])

    def test_found_later(self) -> None:
        """A queue that an earlier release kept is removed after the next start."""
        pair = self.start()
        earlier = self.patch(DeletedQueues, "remove", lambda *args: succeed(None))
        self.brief(pair)
        pair.pump(30.0)
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 1), (0, 0)])
        pair.stop_slave()
        earlier.restore()
        pair.start_slave()
        pair.pump(11.0)
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 0), (0, 0)])

    def test_created_anew(self) -> None:
        """What a topic had in queues that the new topic of its name has not used yet is removed, and nothing else."""
        pair = self.start()
        for queue_id in range(2):
            pair.send("T", b"old", queue_id=queue_id)
        pair.pump(11.0)
        delete(pair, "T")
        pair.send("T", b"new", queue_id=1)
        pair.pump(21.0)
        self.assertEqual(self.bounds(pair, "T"), [(0, 0), (0, 1)])
        (message,) = records(pair.ask(pull_command("T", 1), SLAVE).body)
        self.assertEqual(message.body, b"new")

    def test_created_anew_unused(self) -> None:
        """All of it is removed where the new topic has no message yet."""
        pair = self.start()
        pair.send("T", b"old")
        pair.pump(11.0)
        config = pair.broker.topics.get("T")
        assert config is not None
        delete(pair, "T")
        pair.broker.topics.update(config)
        pair.pump(11.0)
        self.assertEqual(self.bounds(pair, "T"), [(0, 0), (0, 0)])
        self.assertIn("T", pair.followed.topics)

    def test_not_in_the_table(self) -> None:
        """A queue that the master has stays, though its table lost the topic."""
        pair = self.start()
        pair.send("T", b"1")
        pair.pump(11.0)
        lost = pair.broker.topics.wrapper()
        pair.send("Lost", b"1")
        pair.broker.topics.replace_all(DataVersion(counter=77), lost.topic_config_table)
        pair.pump(21.0)
        self.assertNotIn("Lost", pair.followed.topics)
        self.assertEqual(self.bounds(pair, "Lost"), [(0, 1), (0, 0)])

    def test_rocketmq(self) -> None:
        """With a master that does not know the request the queue stays, and the tables are copied."""
        pair = self.start()
        replicator = self.replicator(pair)
        ask = replicator._ask_at

        def unknowing(address: str, request: Command, timeout: float) -> Deferred[Command]:
            if request.code == RequestCode.FIND_MISSING_QUEUES:
                return succeed(request.answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported"))
            answer: Deferred[Command] = ask(address, request, timeout)
            return answer

        self.patch(replicator, "_ask_at", unknowing)
        self.brief(pair)
        pair.pump(21.0)
        self.assertEqual(self.bounds(pair, "Brief"), [(0, 1), (0, 0)])
        self.assertEqual(replicator.reason, "")


class PlacedStore(FakeStore):
    """
    A slave's store with queues of one message.

    @ivar places: where the message of each queue lies.
    @ivar gone: deletions: a topic, and since when queues stay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[tuple[str, int], int] = {}
        self.end = 1000
        self.gone: list[tuple[str, int | None]] = []

    def put(self, topic: str, queue_id: int, place: int, first: int = 0) -> None:
        """Have a queue."""
        self.stored[topic, queue_id] = first, [1]
        self.places[topic, queue_id] = place

    def log_bounds(self) -> tuple[int, int]:
        """As set."""
        return 0, self.end

    def last_at(self, topic: str, queue_id: int) -> int:
        """As set."""
        return self.places[topic, queue_id]

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> list[Unit]:
        """The only one."""
        return [Unit(self.places[topic, queue_id], 100, 0)]

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """Remember where, too."""
        self.gone.append((topic, since))
        return super().delete_topic(topic, since)


class QuestionTests(SynchronousTestCase):
    """What is asked, and what is made of the answer."""

    def setUp(self) -> None:
        self.store = PlacedStore()
        self.topics = TopicTable(FakeClock())
        self.asked: list[dict[str, list[int]]] = []
        self.missing: dict[str, list[int]] = {}
        self.log = 0, 1000
        self.followed = True
        self.refused = False
        self.meanwhile = lambda: None
        store: Any = self.store
        self.queues = DeletedQueues(store, self.topics, self.answer, lambda: self.followed)
        self.table("T")

    def table(self, *names: str) -> None:
        """Copy a table of topics."""
        self.counter = getattr(self, "counter", 0) + 1
        configs = {name: topic_config(name, 4, READ | WRITE, 0) for name in names}
        self.topics.replace_all(DataVersion(counter=self.counter), configs)

    def answer(self, master: str, request: Command) -> Deferred[Command]:
        """Answer for the master."""
        self.assertEqual((master, request.code), (_MASTER, RequestCode.FIND_MISSING_QUEUES))
        asked = QueueNames.decode(request.body).queue_table
        self.asked.append(asked)
        self.meanwhile()
        if self.refused:
            return fail(PeerRefused(ResponseCode.SYSTEM_ERROR, "damaged"))
        body = MissingQueues(self.missing, *self.log).encode()
        return succeed(Command.request(RequestCode.FIND_MISSING_QUEUES, body=body))

    def copy(self) -> list[dict[str, list[int]]]:
        """Have one copy of the tables; return what was asked."""
        self.asked.clear()
        self.successResultOf(Deferred.fromCoroutine(self.queues.remove(_MASTER)))
        return list(self.asked)

    def test_asked(self) -> None:
        """All queues are asked for until the log has come as far as the master's; then those of unknown topics."""
        self.store.put("T", 0, 10)
        self.store.put("Brief", 1, 20)
        self.store.put("%LMQ%light", 0, 30)
        self.store.put("SCHEDULE_TOPIC_XXXX", 3, 40)
        everything = [{"T": [0], "Brief": [1]}]
        self.store.end = 900
        self.assertEqual([self.copy() for _ in range(3)], [everything] * 3)
        self.store.end = 1000
        self.assertEqual([self.copy() for _ in range(2)], [everything] * 2)
        self.assertEqual([self.copy() for _ in range(2)], [[{"Brief": [1]}]] * 2)
        self.table("T", "Brief")
        self.assertEqual([self.copy() for _ in range(4)], [everything] * 3 + [[]])
        self.queues.note_start(_MASTER, "1")
        self.assertEqual([self.copy() for _ in range(4)], [everything] * 3 + [[]])
        self.queues.note_start(_MASTER, "1")
        self.assertEqual(self.copy(), [])
        self.queues.note_start(_MASTER, "2")
        self.assertEqual(self.copy(), everything)
        self.assertEqual(self.store.gone, [])

    def test_in_parts(self) -> None:
        """Many queues are asked for in several questions."""
        for number in range(1500):
            self.store.put(f"T{number}", 0, number)
        self.log = 0, 2000
        self.assertEqual([len(one) for one in self.copy()], [1000, 500])

    def test_removed(self) -> None:
        """Queues that the master does not have are removed, but not what has come to the topic since."""
        self.store.put("T", 0, 500)
        self.store.put("T", 1, 600)
        self.store.put("T", 2, 700)
        self.missing = {"T": [0, 1]}
        self.copy()
        self.assertEqual(self.store.gone, [("T", 601)])

    def test_kept(self) -> None:
        """Nothing is removed where it is not certain that the queue was deleted."""
        for why, last, log, live in (
            ("the master's log begins behind our last message", 500, (501, 1000), 700),
            ("the master's log ends before it", 500, (0, 500), 700),
            ("a queue that the master has began before it", 500, (0, 1000), 400),
        ):
            with self.subTest(why):
                self.store.put("T", 0, last)
                self.store.put("T", 1, live)
                self.missing, self.log = {"T": [0]}, log
                self.table("T")
                self.copy()
                self.assertEqual(self.store.gone, [])
        self.store.put("T", 1, 700, first=3)  # where it began is no longer known
        self.log = 0, 1000
        self.copy()
        self.assertEqual(self.store.gone, [])

    def test_not_believed(self) -> None:
        """An answer counts for the queues that were asked for alone, and not when the master was left meanwhile."""
        self.store.put("T", 0, 500)
        self.missing = {"T": [0, 7], "U": [0]}
        self.refused = True
        self.copy()
        self.refused = False
        self.meanwhile = lambda: setattr(self, "followed", False)
        self.copy()
        self.followed = True
        self.meanwhile = lambda: self.table("T", "U")
        self.copy()
        self.assertEqual(self.store.gone, [])
        self.meanwhile = lambda: None
        self.copy()
        self.assertEqual(self.store.gone, [("T", 501)])
