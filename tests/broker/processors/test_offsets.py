"""Requests about positions."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.processors.offsets import OffsetProcessor
from smartgo.errors import BadHeader, BadName, GroupNotExist, QueryNotFound, RequestRefused, TopicNotExist
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.doubles import FakeBroker, FakePeer, change, current, received, request


class OffsetProcessorTests(SynchronousTestCase):
    """Requests 14, 15, 29, 30, 31 and 32."""

    def setUp(self) -> None:
        self.table_settings = current(max_groups=3)
        self.broker = FakeBroker(max_groups=2, table_settings=self.table_settings)
        self.topics, self.offsets = self.broker.topics, self.broker.offsets
        self.topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2))
        self.store = self.broker.fake_store
        self.store.stored["T", 0] = (5, [1000, 2000, 3000])
        self.groups = self.broker.groups
        self.processor = OffsetProcessor(self.broker)
        verifyObject(IRequestProcessor, self.processor)

    def ask(self, code: int, **fields: Any) -> Command:
        """Ask, and return the answer as it is read."""
        texts = {name: str(value) for name, value in fields.items()}
        answer = self.processor.process(FakePeer(), request(code, None, **texts))
        return received(self.successResultOf(answer) if isinstance(answer, Deferred) else answer)

    def query(self, **fields: Any) -> Command:
        """14 for group g."""
        return self.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, **{"consumerGroup": "g", "topic": "T", "queueId": 0} | fields
        )

    def commit(self, **fields: Any) -> Command:
        """15 for group g."""
        wanted = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 7} | fields
        return self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **wanted)

    def test_commit_and_query(self) -> None:
        """15 sets the offset that 14 answers, forwards or back."""
        for offset in (7, 6, 0):
            answer = self.commit(commitOffset=offset)
            self.assertEqual((answer.code, answer.body), (0, b""))
            self.assertEqual(self.query().fields, {"offset": str(offset)})

    def test_new_group_on_a_young_queue(self) -> None:
        """A group without an offset begins at 0 where the queue still has its first message, or has none."""
        self.store.stored["T", 1] = (0, [1000])
        self.assertEqual(self.query(queueId=1).fields, {"offset": "0"})
        self.assertEqual(self.query(queueId=2).fields, {"offset": "0"})
        self.assertEqual(self.query(topic="unknown").fields, {"offset": "0"})
        self.assertNotIn("unknown", self.topics)

    def test_new_group_on_an_old_queue(self) -> None:
        """It gets 22 where the first message is gone, or lies far back, or where the client wishes so."""
        for fields in ({}, {"queueId": 1}, {"queueId": 2, "setZeroIfNotFound": "false"}):
            self.store.far.add(("T", 1))
            with self.assertRaises(QueryNotFound) as caught:
                self.query(**fields)
            self.assertEqual(caught.exception.code, 22)
        self.assertEqual(self.query(queueId=2, setZeroIfNotFound="true").fields, {"offset": "0"})

    def test_commit_refused(self) -> None:
        """What cannot be consumed cannot be committed; nothing is created by trying."""
        for fields, error in (
            ({"topic": "unknown"}, TopicNotExist),
            ({"queueId": 4}, RequestRefused),
            ({"queueId": -1}, RequestRefused),
            ({"commitOffset": -1}, RequestRefused),
            ({"consumerGroup": "a/b"}, BadName),
            ({"commitOffset": "x"}, BadHeader),
        ):
            with self.assertRaises(error):
                self.commit(**fields)
        self.assertEqual((len(self.offsets), len(self.topics)), (0, 1))

    def test_number_of_groups(self) -> None:
        """There is a limit to the groups that have offsets."""
        for group in "gh":
            self.commit(consumerGroup=group)
        with self.assertRaises(RequestRefused):
            self.commit(consumerGroup="i")
        self.commit(consumerGroup="h", commitOffset=8)

    def test_bounds(self) -> None:
        """30 is the end of a queue, 31 its first offset; both 0 for a queue that has nothing and for unknown topics."""
        for topic, queue_id, wanted in (("T", 0, ("8", "5")), ("T", 3, ("0", "0")), ("unknown", 9, ("0", "0"))):
            found = [
                self.ask(code, topic=topic, queueId=queue_id).fields["offset"]
                for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET)
            ]
            self.assertEqual(tuple(found), wanted)
        self.assertNotIn("unknown", self.topics)

    def test_queue_ids(self) -> None:
        """A queue id that the topic lacks, or a negative one, is refused everywhere: 1."""
        more = {"consumerGroup": "g", "timestamp": 0, "commitOffset": 0}
        for code in self.processor.codes:
            for topic, queue_id in (("T", 4), ("T", -1), ("unknown", -1)):
                if code == RequestCode.UPDATE_CONSUMER_OFFSET and topic == "unknown":
                    continue
                with self.assertRaises(RequestRefused) as caught:
                    self.ask(code, topic=topic, queueId=queue_id, **more)
                self.assertEqual(caught.exception.code, 1, f"code {code}")

    def test_search(self) -> None:
        """29 asks the store, with the side that 5.x may name."""
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        self.assertEqual(self.ask(code, topic="T", queueId=0, timestamp=2000).fields, {"offset": "6"})
        self.ask(code, topic="T", queueId=0, timestamp=2000, boundaryType="UPPER")
        self.assertEqual(self.store.asked, [("T", 0, 2000, None), ("T", 0, 2000, "UPPER")])
        with self.assertRaises(RequestRefused):
            self.ask(code, topic="T", queueId=0, timestamp=2000, boundaryType="SIDEWAYS")

    def test_earliest(self) -> None:
        """32 is the store time of the first message, -1 where there is none."""
        code = RequestCode.GET_EARLIEST_MSG_STORETIME
        self.assertEqual(self.ask(code, topic="T", queueId=0).fields, {"timestamp": "1000"})
        self.assertEqual(self.ask(code, topic="T", queueId=1).fields, {"timestamp": "-1"})

    def test_made_up_groups(self) -> None:
        """A commit brings about its group, within the limits of groups, where groups come about by their use."""

        def commit(group: str) -> None:
            self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup=group, topic="T", queueId=0, commitOffset=1)

        commit("a")
        commit("b")
        self.assertEqual((self.groups.names(), list(self.groups.unused)), (["a", "b"], ["a", "b"]))
        self.offsets.remove_group("a")
        change(self.table_settings, auto_create_subscription_group=False, max_groups=3)
        self.assertRaises(GroupNotExist, commit, "c")
        change(self.table_settings, max_groups=3)
        self.assertRaises(BadName, commit, "a/b")
        self.groups.update(SubscriptionGroupConfig(group_name="d"))
        self.assertRaises(RequestRefused, commit, "c")
        self.assertEqual(len(self.offsets), 1)
