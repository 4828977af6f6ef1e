"""Whole queues read from a broker with pulls written by hand: exactly what it delivers, checked by no client."""

from __future__ import annotations

import time
from typing import NamedTuple

from smartgo.schema.message import StoredMessage
from smartgo.schema.record import decode
from tests.interop.peers import Answer, Node, answer

_PULL_MESSAGE = 11
_FOUND = 0
_NO_MESSAGE = 19
_STEPS = 10_000  # pulls of one queue
_PATIENCE = 20.0  # seconds that one place of a queue may fail


class Delivered(NamedTuple):
    """A message as a broker delivered it."""

    queue: int
    offset: int
    body: bytes


class QueueUnread(Exception):
    """A queue could not be read to its end; the text says where and why."""


def pull(node: Node, topic: str, queue: int, offset: int) -> tuple[Answer | None, float]:
    """Pull once; return the answer, if there was one, and the seconds it took."""
    fields = {
        "consumerGroup": "probes",
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",  # with a subscription
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    begin = time.monotonic()
    return answer(node.plan, _PULL_MESSAGE, fields), time.monotonic() - begin


def read_queue(node: Node, topic: str, queue: int) -> list[Delivered]:
    """
    Return all that a broker delivers of a queue, from offset 0 on.

    @raise QueueUnread: no answer, or the same error for too long, at one place.
    """
    found = []
    offset = 0
    since = time.monotonic()
    for _ in range(_STEPS):
        told, _ = pull(node, topic, queue, offset)
        following = -1 if told is None else int(told.fields.get("nextBeginOffset", -1))
        if told is not None and told.code == _FOUND:
            for message in _messages(told.body):
                found.append(Delivered(message.queue_id, message.queue_offset, bytes(message.body)))
        elif told is not None and told.code == _NO_MESSAGE:
            return found
        if following > offset:
            offset = following
            since = time.monotonic()
        elif following == offset and told is not None and told.code != _FOUND and following > 0:
            return found  # it leads nowhere: behind the queue's end
        elif time.monotonic() - since > _PATIENCE:
            raise QueueUnread(f"queue {queue} at {offset}: {'no answer' if told is None else told.code}")
    raise QueueUnread(f"queue {queue} does not end")


def _messages(body: bytes) -> list[StoredMessage]:
    """Return the messages of an answer; what follows one that cannot be decoded is lost, as it is to a client."""
    found = []
    at = 0
    while at < len(body):
        try:
            message = decode(body, at)
        except Exception:
            break
        found.append(message)
        at += message.size
    return found
