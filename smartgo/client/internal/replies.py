"""
Requests between clients: their messages, those of replies, and the requests that wait for replies.

Rules: docs/spec/client#replies. Source: C{client/producer/RequestFutureHolder.java}, C{client/utils/MessageUtil.java},
C{client/impl/ClientRemotingProcessor.java} of 4.9.8.
"""

from __future__ import annotations

from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.messages import Message, ReceivedMessage
from smartgo.env.interfaces import IClock
from smartgo.errors import (
    BadCompression,
    BodyTooLong,
    CallFailed,
    CallTimedOut,
    MessageIllegal,
    ReplyTimedOut,
    RequestRefused,
)
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.compression import decompress_body
from smartgo.schema.headers.send import PushReplyRequest

REPLY: Final = "reply"
"""MSG_TYPE of a reply."""

_RETURNED: Final[tuple[str, ...]] = (properties.CORRELATION_ID, properties.REPLY_TO_CLIENT, properties.TTL)
_REPLY_TOPIC: Final = "_REPLY_TOPIC"


def request_message(message: Message, correlation_id: str, client_id: str, timeout: float) -> Message:
    """
    Return a message as a request.

    @param client_id: the client that the reply is for.
    @param timeout: seconds for the reply.
    @raise MessageIllegal: the message is delayed.
    """
    if message.is_delayed:
        raise MessageIllegal("a request cannot be delayed: nobody waits for its reply so long")
    found = dict(message.properties)
    found[properties.CORRELATION_ID] = correlation_id
    found[properties.REPLY_TO_CLIENT] = client_id
    found[properties.TTL] = str(round(timeout * 1000))
    return msgspec.structs.replace(message, properties=found)


def reply_message(request: ReceivedMessage, body: bytes) -> Message:
    """
    Return the message that is the reply to a request.

    @raise MessageIllegal: the message is no request: it lacks a property of one.
    """
    asked = request.properties
    for name in (properties.CLUSTER, *_RETURNED[:2]):
        if name not in asked:
            raise MessageIllegal(f"message {request.message_id} is no request: it has no property {name}")
    found = {name: asked[name] for name in _RETURNED if name in asked}
    found[properties.MSG_TYPE] = REPLY
    return Message(topic=asked[properties.CLUSTER] + _REPLY_TOPIC, body=body, properties=found)


def received_reply(header: PushReplyRequest, body: bytes, arrived_ms: int) -> ReceivedMessage:
    """
    Return the reply that a broker pushes.

    @param arrived_ms: the wall clock now, in ms.
    @raise BadCompression: the body is not compressed as its flags say.
    @raise BodyTooLong: the decompressed body is longer than any that can be sent.
    """
    found = properties.decode_text(header.properties)
    found[properties.ARRIVE_TIME] = str(arrived_ms)
    return ReceivedMessage(
        topic=header.topic,
        queue=MessageQueue(header.topic, "", header.queue_id),
        queue_offset=0,
        body=decompress_body(body, header.sys_flag),
        properties=found,
        message_id=found.get(properties.UNIQ_KEY, ""),
        offset_id="",
        log_offset=0,
        flag=header.flag,
        born_ms=header.born_timestamp,
        stored_ms=header.store_timestamp,
        born_host=header.born_host,
        reconsume_times=header.reconsume_times,
    )


class AwaitedReply:
    """
    A request that waits for its reply.

    @ivar waits: fires with the reply; fails with L{ReplyTimedOut}, or with what the send of the request failed with.
    """

    def __init__(self, topic: str) -> None:
        self.waits: Deferred[ReceivedMessage] = Deferred()
        self._topic = topic
        self._stored = False

    def stored(self, _: object) -> None:
        """A broker has the request."""
        self._stored = True

    def fail(self, failure: Failure) -> None:
        """The request could not be sent; a reply that arrived all the same counts."""
        if not self.waits.called:
            self.waits.errback(failure)

    def timed_out(self, _: object, seconds: float) -> ReceivedMessage:
        """@raise CallTimedOut: the time is over."""
        if self._stored:
            raise ReplyTimedOut(f"reply to a request of {self._topic}", seconds)
        raise CallTimedOut(f"request of {self._topic}", seconds)


class AwaitedReplies:
    """The requests of a client that wait for their replies, by correlation id."""

    _log = Logger()

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._waiting: dict[str, AwaitedReply] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def expect(self, correlation_id: str, topic: str, deadline: float, timeout: float) -> AwaitedReply:
        """
        Add a request, before it is sent.

        @param deadline: clock in seconds when nobody waits any more; C{timeout} seconds from its beginning.
        """
        found = self._waiting[correlation_id] = AwaitedReply(topic)
        found.waits.addBoth(self._ended, correlation_id)
        left = max(0.0, deadline - self._clock.seconds())
        found.waits.addTimeout(left, self._clock, lambda result, _: found.timed_out(result, timeout))
        return found

    def _ended(self, result: ReceivedMessage | Failure, correlation_id: str) -> ReceivedMessage | Failure:
        del self._waiting[correlation_id]
        return result

    def end(self) -> None:
        """Fail all requests that wait: their client stops."""
        for one in list(self._waiting.values()):
            one.fail(Failure(CallFailed("no reply any more: the client has stopped")))

    def arrived(self, header: PushReplyRequest, body: bytes) -> None:
        """
        Give a reply to the request that waits for it.

        @raise RequestRefused: it cannot be read.
        """
        try:
            reply = received_reply(header, body, self._clock.wall_ms())
        except (BadCompression, BodyTooLong) as error:
            raise RequestRefused(f"process reply message fail: {error}") from None
        correlation_id = reply.properties.get(properties.CORRELATION_ID, "")
        found = self._waiting.get(correlation_id)
        if found is None:
            self._log.warn(
                "a reply from {host} came too late, or for another client: its correlation id {id} is not known",
                host=reply.born_host,
                id=correlation_id,
            )
        else:
            found.waits.callback(reply)
