"""A registry and a broker in memory, and a client that speaks to them frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.broker.openbroker import OpenBroker
from smartgo.config.loading import Configuration, Surroundings, load
from smartgo.node.registryserver import Registry
from smartgo.remoting.client import RemotingClient
from smartgo.schema.bodies import (
    ConsumerData,
    HeartbeatData,
    RegisterBrokerBody,
    SubscriptionData,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.registry import RegisterBrokerRequest
from smartgo.schema.headers.send import SendRequestV2
from smartgo.schema.message import StoredMessage
from smartgo.schema.properties import encode, tag_code
from smartgo.schema.record import decode as decode_record
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import settle, sweeper_of

BROKER = "127.0.0.1:10911"
FAST = "127.0.0.1:10909"
REGISTRY = "127.0.0.1:9876"

SMALL = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
    "brokerName": "broker-a",
}


class Cluster:
    """
    One registry, one broker, one client, all over a L{FakeEnvironment}.

    @ivar env: the environment; C{env.clock} is advanced by hand.
    @ivar service: the life of the broker.
    """

    def __init__(self, env: FakeEnvironment | None = None, **settings: str) -> None:
        """
        @param settings: broker and store settings by their names in a file.
        """
        self.env = env or FakeEnvironment()
        self.client = RemotingClient(self.env, sweeper_of(self.env.clock))
        self.configuration = self.configure(settings)
        self.sweeper = sweeper_of(self.env.clock, self.env.network.poller)
        self.registry = Registry(self.env, self.configuration, self.sweeper)
        self.registry.startService()
        self.service = Broker(self.env, self.configuration, self.sweeper)
        self.service.startService()
        self.pump()

    @property
    def broker(self) -> OpenBroker:
        """The broker, whose store must be open."""
        return opened(self.service)

    def configure(self, settings: Mapping[str, str]) -> Configuration:
        """The settings of both."""
        surroundings = Surroundings("testhost", "/home/test", lambda name: None)
        return load(surroundings, flags={**SMALL, "namesrvAddr": REGISTRY, "storePathRootDir": "/store", **settings})

    def pump(self, seconds: float = 0.0, step: float = 0.1) -> None:
        """Move bytes and time, until that time has passed and all is quiet."""
        while True:
            self.env.network.pump()
            self.env.clock.advance(0)
            self.env.network.pump()
            if seconds <= 1e-9:
                break
            self.env.clock.advance(min(step, seconds))
            seconds -= step
        settle(self.env)  # answers may leave at the end of a turn

    def ask(self, command: Command, address: str = BROKER) -> Command:
        """Ask, and return the answer, which must come at once."""
        found: list[object] = []
        self.client.ask(address, command, 3.0).addBoth(found.append)
        self.pump()
        if not found:
            raise AssertionError("no answer")
        if not isinstance(found[0], Command):
            raise AssertionError(f"no answer: {found[0]}")
        return found[0]

    def send(self, topic: str, body: bytes = b"body", queue_id: int = 0, **more: Any) -> Command:
        """Send one message; C{properties} is a mapping."""
        return self.ask(send_command(topic, body, queue_id, **more))

    def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **more: Any) -> tuple[Command, list[StoredMessage]]:
        """Pull by a subscription in the request, without waiting."""
        answer = self.ask(pull_command(topic, queue_id, offset, **more))
        return answer, records(answer.body)

    def heartbeat(self, group: str, *topics: str, client_id: str = "client-1", **more: Any) -> None:
        """Join a group, subscribing to all of some topics."""
        self.ask(Command.request(RequestCode.HEART_BEAT, body=heartbeat(group, *topics, client_id=client_id, **more)))

    def register(self, name: str, port: int, *topics: str) -> None:
        """Tell the registry of another master with some topics, as brokers do again and again."""
        header = RegisterBrokerRequest(
            broker_name=name,
            broker_addr=f"127.0.0.1:{port}",
            cluster_name="DefaultCluster",
            ha_server_addr="",
            broker_id=0,
        )
        body = RegisterBrokerBody(TopicConfigSerializeWrapper({one: TopicConfig(topic_name=one) for one in topics}))
        answer = self.ask(Command.request(RequestCode.REGISTER_BROKER, header, body.encode(compressed=False)), REGISTRY)
        assert answer.code == 0, answer.remark

    def stop(self) -> None:
        """Stop all three."""
        done: list[object] = []
        self.client.stop().addBoth(done.append)
        self.pump()
        self.service.stopService().addBoth(done.append)
        self.pump(7.0)
        self.registry.stopService().addBoth(done.append)
        self.pump(7.0)
        if done != [None, None, None] and len(done) != 3:
            raise AssertionError(f"not stopped: {done}")


def opened(service: Broker) -> OpenBroker:
    """A broker, whose store must be open."""
    if service.opened is None:
        raise AssertionError("the broker's store is not open")
    return service.opened


class ClusterCase(SynchronousTestCase):
    """Tests with a cluster."""

    settings: ClassVar[dict[str, str]] = {}

    def setUp(self) -> None:
        """Start it."""
        self.cluster = Cluster(None, **self.settings)
        self.successResultOf(self.cluster.service.ready)

    def tearDown(self) -> None:
        """Stop it: no timer and no mapping is left."""
        self.cluster.stop()
        self.assertEqual(self.cluster.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.cluster.env.files.mappings, [])


def send_command(topic: str, body: bytes = b"body", queue_id: int = 0, **more: Any) -> Command:
    """A send as a Java client makes it."""
    properties = more.pop("properties", {"UNIQ_KEY": "00", "WAIT": "true"})
    code = more.pop("code", RequestCode.SEND_MESSAGE_V2)
    header = SendRequestV2(
        producer_group="PG",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_600_000_000_000,
        flag=0,
        properties=properties if isinstance(properties, str) else encode(properties).decode(),
    )
    return Command.request(code, msgspec.structs.replace(header, **more), body)


def pull_command(topic: str, queue_id: int = 0, offset: int = 0, **more: Any) -> Command:
    """A pull with its subscription in the request."""
    header = PullRequest(
        consumer_group="CG",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=15000,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    return Command.request(RequestCode.PULL_MESSAGE, msgspec.structs.replace(header, **more))


def heartbeat(
    group: str, *topics: str, client_id: str = "client-1", version: int = 1, tags: str = "*", kind: str = "TAG"
) -> bytes:
    """The body of a heartbeat of one consumer; C{tags} is an SQL92 expression where C{kind} says so."""
    names = [] if tags == "*" or kind != "TAG" else tags.split("||")
    subscriptions = [
        SubscriptionData(
            topic=topic,
            sub_string=tags,
            sub_version=version,
            tags_set=frozenset(names),
            code_set=frozenset(map(tag_code, names)),
            expression_type=kind,
        )
        for topic in topics
    ]
    consumer = ConsumerData(group_name=group, subscription_data_set=subscriptions)
    return HeartbeatData(client_id=client_id, consumer_data_set=[consumer]).encode()


def records(body: bytes) -> list[StoredMessage]:
    """The stored messages of an answer's body."""
    found = []
    at = 0
    while at < len(body):
        found.append(decode_record(body, at))
        at += found[-1].size
    return found
