"""
The cases that each face of the client passes, against our broker and against RocketMQ's.

A case runs in a thread and takes a L{Cluster}; its docstring is the sentence that it proves. Topics exist already.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial

from smartgo import (
    CallFailed,
    ConsumeLater,
    ConsumerSettings,
    Message,
    MessageIllegal,
    MessageModel,
    MessageQueue,
    MessageTypeWrong,
    PeerRefused,
    PullStatus,
    ReceivedMessage,
    ReplyTimedOut,
    ResetTarget,
    SendStatus,
    SettingError,
    Sql,
    Tracing,
    TransactionState,
    lag_of,
)
from smartgo.schema.topics import TRACE_TOPIC
from tests.client.facecluster import FIRST, WAIT, Cluster, Heard, bodies_of, check, raised, same
from tests.client.litecases import lite_assigned, lite_pull

NOTICED = 10.0
"""Seconds in which a new topic is noticed also by a machine that is busy; otherwise 2 s are enough."""


def send(cluster: Cluster) -> None:
    """A message that is sent can be read at its queue and offset, with its tag, keys and properties."""
    topic = cluster.topic("send")
    (result,) = cluster.send(topic, b"body", tag="blue", keys=("k1", "k2"), properties={"colour": "bleu"})
    same(result.status, SendStatus.SEND_OK)
    (message,) = pulled(cluster, result.queue, result.queue_offset, 1)
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
    found = pulled(cluster, result.queue, result.queue_offset, 10)
    same(bodies_of(found), [b"%d" % n for n in range(10)])


def one_way(cluster: Cluster) -> None:
    """A message that is sent one way arrives, though nobody answers."""
    topic = cluster.topic("oneway")
    queue_ = cluster.do(cluster.producer.queues, topic)[0]
    same(cluster.do(cluster.producer.send_one_way, Message(topic=topic, body=b"x"), queue_), None)
    same(bodies_of(pulled(cluster, queue_, 0, 1)), [b"x"])


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


def new_topic(cluster: Cluster) -> None:
    """A consumer that starts before its topic is there gets the first message soon, whoever sends it."""
    other = cluster.another_client(f"{cluster.unique}-other")
    try:
        elsewhere = cluster.do(cluster.face.kind("Producer"), other, cluster.group("elsewhere"))
        cluster.do(elsewhere.start)
        for name, producer in (("here", cluster.producer), ("elsewhere", elsewhere)):
            topic = cluster.group(f"new-{name}")  # a name that nothing has
            heard = Heard()
            consumer = cluster.consumer(cluster.group(f"g-{name}"), topic, heard)
            begun = time.monotonic()
            cluster.do(producer.send, Message(topic=topic, body=b"first"))
            same(heard.bodies(1), [b"first"])
            check(time.monotonic() - begun < NOTICED, time.monotonic() - begun)
            cluster.do(consumer.stop)
    finally:
        cluster.do(other.stop)


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
            raise ConsumeLater(1)

    cluster.consumer(cluster.group("g"), topic, once_failing, orderly=True)
    same(heard.bodies(6), [b"0", b"1", b"2", b"2", b"3", b"4"])


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
    pulled(cluster, queue_, 0, 3)
    found = cluster.do(puller.pull, queue_, 1)
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


def start_again(cluster: Cluster) -> None:
    """A consumer whose start failed can be started again, with another subscription too; one that runs cannot."""
    topic, heard = cluster.topic("again"), Heard()
    pushing = cluster.do(
        cluster.face.kind("PushConsumer"),
        cluster.client,
        cluster.group("push"),
        cluster.face.listener(heard),
        ConsumerSettings(begin=FIRST),
    )
    lite = cluster.lite(cluster.group("lite"))
    for consumer in (pushing, lite):
        cluster.do(consumer.subscribe, topic, Sql("size BETWEEN AND"))
        for _ in range(2):
            same(raised(PeerRefused, partial(cluster.do, consumer.start)).code, 23)
        cluster.do(consumer.subscribe, topic)
        cluster.do(consumer.start)
        raised(SettingError, partial(cluster.do, consumer.start))
    cluster.send(topic, b"x")
    same(heard.bodies(1), [b"x"])
    same(bodies_of(cluster.do(lite.poll, WAIT)), [b"x"])
    for consumer in (pushing, lite):
        cluster.do(consumer.stop)
        raised(SettingError, partial(cluster.do, consumer.start))


def retry(cluster: Cluster) -> None:
    """A message whose listener fails comes again, with its count."""
    topic = cluster.topic("retry")
    heard = Heard()

    def failing(messages: list[ReceivedMessage]) -> None:
        heard(messages)
        if messages[0].reconsume_times == 0:
            raise ConsumeLater(1)

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


def transactions(cluster: Cluster) -> None:
    """A message whose local transaction commits is delivered, one that rolls back is not, a broker asks of a third."""
    topic = cluster.topic("transactions")
    heard = Heard()
    asked: queue.Queue[str] = queue.Queue()
    states = {
        b"commit": TransactionState.COMMIT,
        b"rollback": TransactionState.ROLLBACK,
        b"unknown": TransactionState.UNKNOWN,
    }

    def checked(half: ReceivedMessage) -> TransactionState:
        asked.put(half.message_id)
        return TransactionState.COMMIT

    kind = cluster.face.kind("TransactionProducer")
    producer = cluster.do(kind, cluster.client, cluster.group("transactions"), checked)
    cluster.do(producer.start)
    cluster.consumer(cluster.group("g"), topic, heard)
    ids = {}
    for body, state in states.items():
        told: list[str] = []

        def local(message: Message, id: str, told: list[str] = told) -> TransactionState:
            told.append(id)
            return states[message.body]

        result = cluster.do(producer.send_in_transaction, Message(topic=topic, body=body), local)
        same((result.state, told), (state, [result.message_id]))
        ids[body] = result.message_id
    found = {one.body: one.message_id for one in heard.messages(2)}
    same(found, {body: ids[body] for body in (b"commit", b"unknown")})
    same(asked.get(timeout=WAIT), ids[b"unknown"])
    cluster.do(producer.stop)
    raised(CallFailed, lambda: cluster.do(producer.send_in_transaction, Message(topic=topic, body=b"x"), local))


def request(cluster: Cluster) -> None:
    """A request gets the reply of a consumer of its topic, and fails in time where nobody replies."""
    topic = cluster.topic("request")
    arrived: queue.Queue[ReceivedMessage] = queue.Queue()
    statuses: queue.Queue[object] = queue.Queue()
    cluster.consumer(cluster.group("g"), topic, lambda messages: arrived.put(messages[0]))
    producer = cluster.producer

    def reply() -> None:
        asked = arrived.get(timeout=WAIT)
        statuses.put(cluster.do(producer.reply, asked, asked.body.upper()).status)

    answering = threading.Thread(target=reply, daemon=True)
    answering.start()
    found = cluster.do(producer.request, Message(topic=topic, body=b"hello"), 30.0)
    same((found.body, statuses.get(timeout=WAIT)), (b"HELLO", SendStatus.SEND_OK))
    raised(ReplyTimedOut, lambda: cluster.do(producer.request, Message(topic=topic, body=b"again"), 1.0))


def pulled(cluster: Cluster, queue_: MessageQueue, offset: int, number: int) -> list[ReceivedMessage]:
    """Return so many messages of a queue; RocketMQ shows them to consumers a moment after they were stored."""
    found: list[ReceivedMessage] = []
    while len(found) < number:
        result = cluster.do(cluster.puller(cluster.group("g")).pull, queue_, offset + len(found), hold=20.0)
        check(result.status in (PullStatus.FOUND, PullStatus.NO_NEW), result)
        found += result.messages
    return found


def trace(cluster: Cluster) -> None:
    """A client with traces writes what it sent to the topic that it was given, by a name or by L{Tracing}."""
    topic, traces = cluster.topic("traced"), cluster.topic("traces")
    choices: list[tuple[object, str]] = [(True, TRACE_TOPIC), (traces, traces), (Tracing(messages=traces), traces)]
    for number, (choice, written) in enumerate(choices):
        client = cluster.another_client(f"{cluster.unique}-{number}", trace=choice)
        try:
            producer = cluster.do(cluster.face.kind("Producer"), client, cluster.group("traced"))
            cluster.do(producer.start)
            sent = cluster.do(producer.send, Message(topic=topic, body=b"x")).message_id
        finally:
            cluster.do(client.stop)  # writes the traces that are left
        wait_written(cluster, written, sent.encode())


def wait_written(cluster: Cluster, topic: str, text: bytes) -> None:
    """Wait until a message with a text stands in a topic, which the first of its messages creates."""
    puller = cluster.puller(cluster.group("g"))

    def found() -> bool:
        try:
            queues = cluster.do(puller.queues, topic)
        except PeerRefused:
            return False
        ends = [(one, cluster.do(puller.max_offset, one)) for one in queues]
        bodies = [body for one, end in ends for body in bodies_of(pulled(cluster, one, 0, end))]
        return any(text in body for body in bodies)

    cluster.until(found)


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
    send, send_to, send_by, batch, one_way, delay, push, new_topic, batches, orderly, broadcast, pull, tags, sql,
    start_again, retry, stop_commits, admin, transactions, request, lite_pull, lite_assigned, trace,
    refusals,
)  # fmt: skip
"""
The cases of an open cluster. Its brokers need C{enablePropertyFilter}, and C{transactionCheckInterval} and
C{transactionTimeOut} of a few seconds.
"""
