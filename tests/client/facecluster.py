"""What a case of the client's faces has: a cluster behind one face, a listener that keeps messages, and checks."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from smartgo import ConsumeFromWhere, ConsumerSettings, LitePullSettings, Message, ReceivedMessage
from tests.client.faces import Face

WAIT = 60.0
"""Seconds until a message that does not come is a failure."""
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Cluster:
    """
    A cluster as a case sees it through one face.

    @ivar client: the face's client, started.
    @ivar options: those of its clients.
    """

    _numbers = count(1)

    def __init__(self, face: Face, registry: str, make_topic: Callable[[str], object], **options: Any) -> None:
        """
        @param make_topic: creates a topic with four queues, and returns when it can be used.
        @param options: of clients.
        """
        self.face = face
        self.do = face.do
        self.registry = registry
        self._make_topic = make_topic
        self.options = options
        self.client = face.client(registry, **options)
        self.unique = f"{face.name}{next(self._numbers)}"
        self._producer: Any = None

    def another_client(self, instance: str, **more: Any) -> Any:
        """Return one more client, for the case to stop. @param more: options of this one."""
        return self.face.client(self.registry, instance=instance, **self.options, **more)

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

    def lite(self, group: str) -> Any:
        """Return a lite pull consumer, which commits when it is told to."""
        settings = LitePullSettings(begin=FIRST, auto_commit=False)
        return self.do(self.face.kind("LitePullConsumer"), self.client, group, settings)

    def until(self, condition: Callable[[], bool]) -> None:
        """Look again and again until something is so, such as what a broker is told without an answer."""
        deadline = time.monotonic() + WAIT
        while not condition():
            check(time.monotonic() < deadline, condition)
            threading.Event().wait(0.05)

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

    def messages(self, number: int) -> list[ReceivedMessage]:
        """Return so many messages, in the order of the calls."""
        found: list[ReceivedMessage] = []
        while len(found) < number:
            found += self.call()
        return found

    def bodies(self, number: int) -> list[bytes]:
        """Return the bodies of so many messages, in the order of the calls."""
        return [one.body for one in self.messages(number)]


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


def bodies_of(messages: list[ReceivedMessage]) -> list[bytes]:
    """Return the bodies of messages."""
    return [one.body for one in messages]
