"""A broker in the role SLAVE: what it serves, what it refuses, and what it never writes (docs/spec/ha)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ResetOffsetRequest
from smartgo.schema.headers.groups import CloneGroupOffsetRequest, DeleteGroupRequest
from smartgo.schema.headers.offsets import OffsetResponse, QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullResponse
from smartgo.schema.headers.topics import CreateTopicRequest, DeleteTopicRequest
from smartgo.schema.topics import OFFSET_MOVED_EVENT
from smartgo.store.interfaces import ReadResult
from smartgo.store.storereads import StoreReads
from tests.broker.fakecluster import BROKER, Cluster, pull_command, records, send_command
from tests.fakes import FakeEnvironment

SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


def say_how_far(case: SynchronousTestCase, is_far: Callable[[], bool]) -> None:
    """Have all stores that are opened from now on say whether what they read lies so far back that a slave may help."""
    read = StoreReads.read

    def told(*arguments: Any) -> ReadResult:
        return read(*arguments)._replace(suggest_slave=is_far())

    case.patch(StoreReads, "read", told)


class SlaveRoleTests(SynchronousTestCase):
    """A slave over a store that was a master's, and has five messages in queue 0 of topic T."""

    def slave(self, **settings: str) -> Cluster:
        """Start it; what was in its memory only is the store."""
        env = FakeEnvironment()
        before = Cluster(env)
        for number in range(5):
            before.send("T", b"%d" % number)
        before.stop()
        cluster = Cluster(env, **SLAVE, **settings)
        self.addCleanup(cluster.stop)
        return cluster

    def pulled(self, cluster: Cluster, offset: int, **more: object) -> tuple[Command, PullResponse]:
        """Pull from queue 0, and read the answer's header."""
        answer = cluster.ask(pull_command("T", 0, offset, **more))
        return answer, answer.read(PullResponse)

    def test_refuses_messages(self) -> None:
        """Whatever would store a message is answered 14 with a clear remark, the end of a transaction 11."""
        cluster = self.slave()
        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            answer = cluster.ask(send_command("T", code=code))
            self.assertEqual(answer.code, ResponseCode.SERVICE_NOT_AVAILABLE, code)
            self.assertIn("is a slave and takes no messages", answer.remark or "")
        back = cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK))
        self.assertEqual(back.code, ResponseCode.SERVICE_NOT_AVAILABLE)
        end = cluster.ask(Command.request(RequestCode.END_TRANSACTION))
        self.assertEqual(end.code, ResponseCode.SLAVE_NOT_AVAILABLE)
        self.assertNotIn("NEW", cluster.broker.topics)
        cluster.send("NEW")
        self.assertNotIn("NEW", cluster.broker.topics)

    def test_refuses_changes(self) -> None:
        """Topics, groups and offsets are not changed by administrators: 1, and they are as they were."""
        cluster = self.slave()
        before = cluster.broker.topics.wrapper(), cluster.broker.groups.wrapper(), cluster.broker.offsets.wrapper()
        config = TopicConfig(topic_name="N", read_queue_nums=1, write_queue_nums=1, perm=6)
        create = CreateTopicRequest(
            topic="N",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=0,
            order=False,
        )
        requests = (
            Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, create),
            Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="T")),
            Command.request(
                RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                body=SubscriptionGroupConfig(group_name="G").encode(),
            ),
            Command.request(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupRequest(group_name="CG")),
            Command.request(
                RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequest(src_group="CG", dest_group="G", topic="T")
            ),
            Command.request(
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
                ResetOffsetRequest(topic="T", group="CG", timestamp=0, is_force=True),
            ),
            Command.request(RequestCode.CLEAN_UNUSED_TOPIC),
        )
        for request in requests:
            answer = cluster.ask(request)
            self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR, request.code)
            self.assertIn("ask the master", answer.remark or "")
        after = cluster.broker.topics.wrapper(), cluster.broker.groups.wrapper(), cluster.broker.offsets.wrapper()
        self.assertEqual(before, after)

    def test_own_tables(self) -> None:
        """A slave brings about nothing by itself: no system topic, no group, no retry topic of one that heartbeats."""
        cluster = Cluster(None, **SLAVE)
        self.addCleanup(cluster.stop)
        cluster.heartbeat("CG", "T")
        self.assertEqual(cluster.pull("T")[0].code, ResponseCode.TOPIC_NOT_EXIST)
        self.assertEqual((cluster.broker.topics.names(), cluster.broker.groups.names()), ([], []))
        members = cluster.broker.consumers.get("CG")
        self.assertEqual(members and members.client_ids(), ["client-1"])

    def test_reads(self) -> None:
        """Messages are found by a group that nobody has seen; the commit bit is not followed, and 0 suggested."""
        cluster = self.slave()
        answer, header = self.pulled(cluster, 2, sys_flag=5, commit_offset=2, consumer_group="FRESH")
        self.assertEqual((answer.code, [one.body for one in records(answer.body)]), (0, [b"2", b"3", b"4"]))
        self.assertEqual((header.next_begin_offset, header.suggest_which_broker_id), (5, 0))
        self.assertIsNone(cluster.broker.offsets.query("FRESH", "T", 0))
        self.assertNotIn("FRESH", cluster.broker.groups)

    def test_offsets(self) -> None:
        """Offsets are stored and told by explicit requests: with the master away, groups go on from here."""
        cluster = self.slave()
        update = UpdateOffsetRequest(consumer_group="CG", topic="T", queue_id=0, commit_offset=3)
        self.assertEqual(cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code, 0)
        query = QueryOffsetRequest(consumer_group="CG", topic="T", queue_id=0)
        answer = cluster.ask(Command.request(RequestCode.QUERY_CONSUMER_OFFSET, query))
        self.assertEqual(answer.read(OffsetResponse).offset, 3)

    def test_outside(self) -> None:
        """
        An offset outside the queue is not corrected: 20, what was asked for, and the group's broker; with
        offsetCheckInSlave it is, by 21. Neither leaves a trace in a topic.
        """
        for checked, code, next_offset in (("false", 20, 77), ("true", 21, 5)):
            cluster = self.slave(offsetCheckInSlave=checked)
            answer, header = self.pulled(cluster, 77)
            self.assertEqual((answer.code, header.next_begin_offset), (code, next_offset))
            self.assertEqual((header.min_offset, header.max_offset, header.suggest_which_broker_id), (0, 5, 0))
            self.assertEqual(cluster.broker.store.bounds(OFFSET_MOVED_EVENT, 0), (0, 0))

    def test_suggests(self) -> None:
        """
        With slaveReadEnable the group's settings say whom to ask next, else the master; after an offset that is not
        there the group's broker, either way.
        """
        is_far: list[object] = []
        say_how_far(self, lambda: bool(is_far))
        for enabled, near, far in (("true", 4, 2), ("false", 0, 0)):
            is_far.clear()
            cluster = self.slave(slaveReadEnable=enabled)
            cluster.broker.groups.update(
                SubscriptionGroupConfig(group_name="CG", broker_id=4, which_broker_when_consume_slowly=2)
            )
            self.assertEqual(self.pulled(cluster, 0)[1].suggest_which_broker_id, near)
            self.assertEqual(self.pulled(cluster, 77)[1].suggest_which_broker_id, 4)
            is_far.append(True)
            self.assertEqual(self.pulled(cluster, 0)[1].suggest_which_broker_id, far)

    def test_delayed(self) -> None:
        """Delayed messages that are due are not delivered."""
        env = FakeEnvironment()
        before = Cluster(env)
        before.send("T", properties={"DELAY": "3"})
        before.stop()
        cluster = Cluster(env, **SLAVE)
        self.addCleanup(cluster.stop)
        end = cluster.broker.store.log_bounds()
        cluster.pump(30.0, step=1.0)
        self.assertEqual(cluster.broker.store.log_bounds(), end)

    def test_held(self) -> None:
        """A pull at the end of a queue is held, as on a master."""
        cluster = self.slave()
        found: list[object] = []
        cluster.client.ask(BROKER, pull_command("T", 0, 5, sys_flag=6), 30.0).addBoth(found.append)
        cluster.pump(10.0)
        self.assertEqual((found, cluster.broker.long_polls.count), ([], 1))


class SuggestionTests(SynchronousTestCase):
    """The broker that a consumer is told to ask next."""

    def suggested(self, far: bool, **settings: str) -> int:
        """By a broker, for a message that is far back or not, of a group with its own ideas."""
        say_how_far(self, lambda: far)
        cluster = Cluster(None, **settings)
        self.addCleanup(cluster.stop)
        cluster.broker.groups.update(
            SubscriptionGroupConfig(group_name="CG", broker_id=4, which_broker_when_consume_slowly=2)
        )
        cluster.send("T")
        return cluster.ask(pull_command("T")).read(PullResponse).suggest_which_broker_id

    def test_master(self) -> None:
        """The group's slave for what lies far back, the group's broker otherwise; 0 unless slaves may be read."""
        self.assertEqual(self.suggested(True, slaveReadEnable="true"), 2)
        self.assertEqual(self.suggested(False, slaveReadEnable="true"), 4)
        self.assertEqual(self.suggested(True), 0)
        self.assertEqual(self.suggested(False), 0)
