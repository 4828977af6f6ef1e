"""
The cases that each face of the client passes, against our broker and against RocketMQ's.

A case runs in a thread and takes a L{Cluster}; its docstring is the sentence that it proves. Topics exist already.
"""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Callable
from itertools import count
from typing import Any

from smartgo import (
    CallFailed,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    MessageIllegal,
    MessageModel,
    MessageTypeWrong,
    PeerRefused,
    PullStatus,
    ReceivedMessage,
    ResetTarget,
    SendStatus,
    Sql,
    lag_of,
)
from tests.client.faces import Face

WAIT = 60.0
"""Seconds until a message that does not come is a failure."""
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Cluster:
    """
    A cluster as a case sees it through one face.

    @ivar client: the face's client, started.
    """

    _numbers = count(1)

    def __init__(self, face: Face, registry: str, make_topic: Callable[[str], None], **options: Any) -> None:
        """
        @param make_topic: creates a topic with four queues, and returns when it can be used.
        @param options: of clients.
        """
        self.face = face
        self.do = face.do
        self.registry = registry
        self._make_topic = make_topic
        self._options = options
        self.client = face.client(registry, **options)
        self.unique = f"{face.name}{next(self._numbers)}"
        self._producer: Any = None

    def another_client(self, instance: str) -> Any:
        """Return one more client, for the case to stop."""
        return self.face.client(self.registry, instance=instance, **self._options)

    def topic(self, name: str) -> str:
        """Return the name of a new topic."""
        full = f"{name}-{self.unique}"
        self._make_topic(full)
        return full

    def group(self, name: str) -> str:
        """Return the name of a new group."""
        return f"{name}-{self.unique}"

    @property
    def producer(self) -> Any:
        """A producer that runs."""
        if self._producer is None:
            self._producer = self.do(self.face.kind("Producer"), self.client, self.group("producers"))
            self.do(self._producer.start)
        return self._producer

    def send(self, topic: str, *bodies: bytes, **more: Any) -> list[Any]:
        """Send messages one by one; return the results."""
        return [self.do(self.producer.send, Message(topic=topic, body=body, **more)) for body in bodies]

    def consumer(
        self, group: str, topic: str, heard: Any, expression: Any = "*", client: Any = None, **settings: Any
    ) -> Any:
        """Return a push consumer that runs."""
        client = self.client if client is None else client
        listener = self.face.listener(heard)
        made = self.do(
            self.face.kind("PushConsumer"), client, group, listener, ConsumerSettings(begin=FIRST, **settings)
        )
        self.do(made.subscribe, topic, expression)
        self.do(made.start)
        return made

    def puller(self, group: str) -> Any:
        """Return a pull consumer."""
        return self.do(self.face.kind("PullConsumer"), self.client, group)

    def admin(self) -> Any:
        """Return administration."""
        return self.do(self.face.kind("Admin"), self.client)

    def stop(self) -> None:
        """Stop the client."""
        self.do(self.client.stop)


class Heard:
    """A listener that keeps what it was called with."""

    def __init__(self) -> None:
        self._calls: queue.Queue[list[ReceivedMessage]] = queue.Queue()

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        self._calls.put(list(messages))

    def call(self) -> list[ReceivedMessage]:
        """Return the messages of the next call."""
        return self._calls.get(timeout=WAIT)

    def bodies(self, number: int) -> list[bytes]:
        """Return the bodies of so many messages, in the order of the calls."""
        found: list[bytes] = []
        while len(found) < number:
            found += [one.body for one in self.call()]
        return found


def check(truth: object, *shown: object) -> None:
    """Fail unless something is true."""
    if not truth:
        raise AssertionError(" ".join(map(repr, shown)) or "not so")


def same(found: object, wanted: object) -> None:
    """Fail unless two values are equal."""
    check(found == wanted, found, wanted)


def raised(kind: type[Exception], call: Callable[[], object]) -> Any:
    """Return the error that a call raises, which is exactly of a class."""
    try:
        result = call()
    except Exception as error:
        check(type(error) is kind, error)
        return error
    raise AssertionError(f"not raised: {kind.__name__}; returned {result!r}")


def send(cluster: Cluster) -> None:
    """A message that is sent can be read at its queue and offset, with its tag, keys and properties."""
    topic = cluster.topic("send")
    (result,) = cluster.send(topic, b"body", tag="blue", keys=("k1", "k2"), properties={"colour": "bleu"})
    same(result.status, SendStatus.SEND_OK)
    found = cluster.do(cluster.puller(cluster.group("g")).pull, result.queue, result.queue_offset, hold=10.0)
    same(found.status, PullStatus.FOUND)
    message = found.messages[0]
    same(
        (message.body, message.tag, message.keys, message.message_id),
        (b"body", "blue", ["k1", "k2"], result.message_id),
    )
    same(message.properties["colour"], "bleu")


def send_to(cluster: Cluster) -> None:
    """A message goes to the queue that is named."""
    topic = cluster.topic("sendto")
    for one in cluster.do(cluster.producer.queues, topic):
        same(cluster.do(cluster.producer.send_to, Message(topic=topic, body=b"x"), one).queue, one)


def send_by(cluster: Cluster) -> None:
    """A message goes to the queue that a function chooses."""
    topic = cluster.topic("sendby")
    for number in range(4):
        result = cluster.do(
            cluster.producer.send_by, Message(topic=topic, body=b"x"), lambda queues, _, at: queues[at], number
        )
        same(result.queue.queue_id, number)


def batch(cluster: Cluster) -> None:
    """The messages of a batch lie side by side in one queue."""
    topic = cluster.topic("batch")
    result = cluster.do(cluster.producer.send_batch, [Message(topic=topic, body=b"%d" % n) for n in range(10)])
    found = cluster.do(cluster.puller(cluster.group("g")).pull, result.queue, result.queue_offset, hold=10.0)
    same([one.body for one in found.messages], [b"%d" % n for n in range(10)])


def one_way(cluster: Cluster) -> None:
    """A message that is sent one way arrives, though nobody answers."""
    topic = cluster.topic("oneway")
    queue_ = cluster.do(cluster.producer.queues, topic)[0]
    same(cluster.do(cluster.producer.send_one_way, Message(topic=topic, body=b"x"), queue_), None)
    found = cluster.do(cluster.puller(cluster.group("g")).pull, queue_, 0, hold=20.0)
    if found.status is PullStatus.NO_NEW:  # it came after the pull was answered
        found = cluster.do(cluster.puller(cluster.group("g")).pull, queue_, 0, hold=20.0)
    same([one.body for one in found.messages], [b"x"])


def delay(cluster: Cluster) -> None:
    """A message with a delay level is delivered later."""
    topic = cluster.topic("delay")
    heard = Heard()
    cluster.consumer(cluster.group("g"), topic, heard)
    cluster.send(topic, b"late", delay_level=1)
    message = heard.call()[0]
    same(message.body, b"late")
    check(message.stored_ms - message.born_ms >= 900, message.stored_ms - message.born_ms)


def push(cluster: Cluster) -> None:
    """A group gets every message of its topic once."""
    topic = cluster.topic("push")
    heard = Heard()
    cluster.consumer(cluster.group("g"), topic, heard)
    cluster.send(topic, *(b"%d" % n for n in range(20)))
    same(sorted(heard.bodies(20)), sorted(b"%d" % n for n in range(20)))


def batches(cluster: Cluster) -> None:
    """A listener gets several messages of one queue in a call where its settings say so."""
    topic = cluster.topic("batches")
    cluster.do(cluster.producer.send_batch, [Message(topic=topic, body=b"%d" % n) for n in range(12)])
    heard = Heard()
    cluster.consumer(cluster.group("g"), topic, heard, batch=4)
    same(sorted(len(heard.call()) for _ in range(3)), [4, 4, 4])


def orderly(cluster: Cluster) -> None:
    """An orderly consumer gets the messages of a queue in order, and the one that failed again before the next."""
    topic = cluster.topic("orderly")
    queue_ = cluster.do(cluster.producer.queues, topic)[0]
    for number in range(5):
        cluster.do(cluster.producer.send_to, Message(topic=topic, body=b"%d" % number), queue_)
    heard = Heard()
    failed: list[bytes] = []

    def once_failing(messages: list[ReceivedMessage]) -> None:
        heard(messages)
        if messages[0].body == b"2" and not failed:
            failed.append(b"2")
            raise consume_later()

    cluster.consumer(cluster.group("g"), topic, once_failing, orderly=True)
    same(heard.bodies(6), [b"0", b"1", b"2", b"2", b"3", b"4"])


def consume_later() -> Exception:
    """Return what a listener raises that fails without a log entry."""
    from smartgo import ConsumeLater

    return ConsumeLater(1)


def broadcast(cluster: Cluster) -> None:
    """Every member of a broadcasting group gets every message."""
    topic = cluster.topic("broadcast")
    group = cluster.group("g")
    others = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            members = []
            for number in range(2):
                client = cluster.another_client(f"{cluster.unique}-{number}")
                others.append(client)
                heard = Heard()
                cluster.consumer(
                    group, topic, heard, client=client, model=MessageModel.BROADCASTING, offsets_directory=folder
                )
                members.append(heard)
            cluster.send(topic, b"a", b"b")
            for heard in members:
                same(sorted(heard.bodies(2)), [b"a", b"b"])
        finally:
            for client in others:
                cluster.do(client.stop)


def pull(cluster: Cluster) -> None:
    """A pull consumer reads from offsets of its choice, and keeps its group's offset."""
    topic = cluster.topic("pull")
    puller = cluster.puller(cluster.group("g"))
    queue_ = cluster.do(puller.queues, topic)[0]
    for number in range(3):
        cluster.do(cluster.producer.send_to, Message(topic=topic, body=b"%d" % number), queue_)
    found = cluster.do(puller.pull, queue_, 1, hold=10.0)
    same(([one.body for one in found.messages], found.next_offset), ([b"1", b"2"], 3))
    same((cluster.do(puller.min_offset, queue_), cluster.do(puller.max_offset, queue_)), (0, 3))
    cluster.do(puller.commit, queue_, 2)
    same(cluster.do(puller.committed, queue_), 2)
    moved = cluster.do(puller.pull, queue_, 99)
    same(moved.status, PullStatus.OFFSET_MOVED)
    same(raised(PeerRefused, lambda: cluster.do(puller.queues, "no-such-topic")).code, 17)


def tags(cluster: Cluster) -> None:
    """A subscription by tags gets the messages with one of them alone."""
    topic = cluster.topic("tags")
    heard = Heard()
    for tag in ("red", "green", "blue"):
        cluster.send(topic, tag.encode(), tag=tag)
    cluster.consumer(cluster.group("g"), topic, heard, "red || blue")
    same(sorted(heard.bodies(2)), [b"blue", b"red"])


def sql(cluster: Cluster) -> None:
    """A subscription by SQL92 gets the messages whose properties match; a wrong expression fails at the start."""
    topic = cluster.topic("sql")
    heard = Heard()
    for size in ("1", "5", "9"):
        cluster.send(topic, size.encode(), properties={"size": size})
    cluster.consumer(cluster.group("g"), topic, heard, Sql("size BETWEEN 4 AND 9"))
    same(sorted(heard.bodies(2)), [b"5", b"9"])
    error = raised(PeerRefused, lambda: cluster.consumer(cluster.group("h"), topic, heard, Sql("size BETWEEN AND")))
    same(error.code, 23)


def retry(cluster: Cluster) -> None:
    """A message whose listener fails comes again, with its count."""
    topic = cluster.topic("retry")
    heard = Heard()

    def failing(messages: list[ReceivedMessage]) -> None:
        heard(messages)
        if messages[0].reconsume_times == 0:
            raise consume_later()

    cluster.consumer(cluster.group("g"), topic, failing)
    cluster.send(topic, b"again")
    seen = [heard.call()[0] for _ in range(2)]
    same([(one.topic, one.body, one.reconsume_times) for one in seen], [(topic, b"again", 0), (topic, b"again", 1)])


def stop_commits(cluster: Cluster) -> None:
    """A consumer that stops has committed what it consumed: the next one of its group does not get that again."""
    topic, group = cluster.topic("stop"), cluster.group("g")
    heard = Heard()
    cluster.send(topic, b"1", b"2", b"3")
    first = cluster.consumer(group, topic, heard)
    same(sorted(heard.bodies(3)), [b"1", b"2", b"3"])
    cluster.do(first.stop)
    cluster.consumer(group, topic, heard)
    cluster.send(topic, b"4")
    same(heard.bodies(1), [b"4"])


def admin(cluster: Cluster) -> None:
    """Administration creates a topic, tells a group's lag and resets its offsets."""
    administration = cluster.admin()
    topic, group = cluster.topic("admin"), cluster.group("g")
    check(topic in cluster.do(administration.topics.names))
    heard = Heard()
    cluster.send(topic, b"1", b"2", b"3")
    consumer = cluster.consumer(group, topic, heard)
    same(sorted(heard.bodies(3)), [b"1", b"2", b"3"])
    members = cluster.do(administration.clients.consumers, group)
    check(members, members)
    cluster.do(consumer.stop)
    same(lag_of(cluster.do(administration.groups.progress, group)), 0)
    plan = cluster.do(administration.positions.plan, group, topic, ResetTarget("earliest"))
    cluster.do(administration.positions.apply, plan)
    same(lag_of(cluster.do(administration.groups.progress, group)), 3)


def refusals(cluster: Cluster) -> None:
    """Errors are of the same classes on each face, whether they are found here or at the broker."""
    topic = cluster.topic("refusals")
    raised(MessageIllegal, lambda: cluster.do(cluster.producer.send, Message(topic=topic, body=b"")))
    raised(MessageTypeWrong, lambda: cluster.do(Message, topic=topic, body="text"))
    queue_ = cluster.do(cluster.producer.queues, topic)[0]
    puller = cluster.puller(cluster.group("g"))
    wrong = type(queue_)(topic, queue_.broker_name, 99)
    raised(PeerRefused, lambda: cluster.do(puller.pull, wrong, 0))
    cluster.do(cluster.producer.stop)
    raised(CallFailed, lambda: cluster.do(cluster.producer.send, Message(topic=topic, body=b"x")))


CASES: tuple[Callable[[Cluster], None], ...] = (
    send, send_to, send_by, batch, one_way, delay, push, batches, orderly, broadcast, pull, tags, sql, retry,
    stop_commits, admin, refusals,
)  # fmt: skip
"""All cases; those of access keys and TLS need other brokers, and run C{send} and C{push} there."""
