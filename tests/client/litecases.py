"""The cases of lite pull consumers that each face of the client passes."""

from __future__ import annotations

from typing import Any

from smartgo import CallFailed, Message, ReceivedMessage, SettingError
from tests.client.facecluster import WAIT, Cluster, bodies_of, check, raised, same


def lite_pull(cluster: Cluster) -> None:
    """A lite pull consumer that subscribes polls its topic, and goes on behind what it committed."""
    topic, group = cluster.topic("litepull"), cluster.group("g")
    for bodies in ({b"%d" % n for n in range(8)}, {b"8", b"9"}):
        cluster.send(topic, *sorted(bodies))
        consumer = cluster.lite(group)
        cluster.do(consumer.subscribe, topic)
        cluster.do(consumer.start)
        messages = poll(cluster, consumer, len(bodies))
        same(set(bodies_of(messages)), bodies)
        cluster.do(consumer.commit)
        for last in {message.queue: message for message in messages}.values():
            wait_committed(cluster, consumer, last)
        cluster.do(consumer.stop)
    raised(CallFailed, lambda: cluster.do(consumer.poll))


def lite_assigned(cluster: Cluster) -> None:
    """A lite pull consumer reads the queues that are assigned, leaves out what is paused, and seeks."""
    topic = cluster.topic("assigned")
    consumer = cluster.lite(cluster.group("g"))
    queues = cluster.do(consumer.fetch_queues, topic)
    for at, queue_ in enumerate(queues[:2]):
        for number in range(3):
            cluster.do(cluster.producer.send_to, Message(topic=topic, body=b"%d-%d" % (at, number)), queue_)
    cluster.do(consumer.assign, queues[:1])
    cluster.do(consumer.start)
    same(bodies_of(poll(cluster, consumer, 3)), [b"0-0", b"0-1", b"0-2"])
    cluster.do(consumer.seek, queues[0], 1)
    same(bodies_of(poll(cluster, consumer, 2)), [b"0-1", b"0-2"])
    raised(SettingError, lambda: cluster.do(consumer.seek, queues[1], 0))
    cluster.do(consumer.assign, queues[:2])
    same(cluster.do(getattr, consumer, "queues"), list(queues[:2]))
    same(bodies_of(poll(cluster, consumer, 3)), [b"1-0", b"1-1", b"1-2"])
    cluster.do(consumer.pause, queues[:1])
    for queue_ in queues[:2]:
        cluster.do(consumer.seek_to_begin, queue_)
    same(bodies_of(poll(cluster, consumer, 3)), [b"1-0", b"1-1", b"1-2"])
    same(cluster.do(consumer.poll, 0.0), [])
    cluster.do(consumer.resume, queues[:1])
    same(bodies_of(poll(cluster, consumer, 3)), [b"0-0", b"0-1", b"0-2"])
    cluster.do(consumer.seek_to_end, queues[0])
    cluster.do(cluster.producer.send_to, Message(topic=topic, body=b"last"), queues[0])
    same(bodies_of(poll(cluster, consumer, 1)), [b"last"])


def wait_committed(cluster: Cluster, consumer: Any, message: ReceivedMessage) -> None:
    """Wait until the broker knows that a message was consumed, which it is told without an answer."""
    cluster.until(lambda: cluster.do(consumer.committed, message.queue) == message.queue_offset + 1)


def poll(cluster: Cluster, consumer: Any, number: int) -> list[ReceivedMessage]:
    """Return so many polled messages; fail if a poll has none."""
    found: list[ReceivedMessage] = []
    while len(found) < number:
        messages = cluster.do(consumer.poll, WAIT)
        check(messages, "no message")
        found += messages
    return found
