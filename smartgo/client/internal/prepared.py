"""
Messages ready to be sent: their properties, their compressed body, and the form of requests.

Source: C{client/impl/producer/DefaultMQProducerImpl.java}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smartgo.client.client import Client
from smartgo.client.internal.events import Events, Sending
from smartgo.client.internal.replies import REPLY
from smartgo.client.internal.route import NEW_TOPIC_QUEUES
from smartgo.client.messages import BODY_LIMIT, Message, properties_text
from smartgo.errors import MessageIllegal, MessageTypeWrong
from smartgo.schema import batch, properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.compression import compress_body
from smartgo.schema.message import PREPARED
from smartgo.schema.topics import RETRY_PREFIX, TEMPLATE_TOPIC

_NEW_TOPIC_QUEUES: Final = str(NEW_TOPIC_QUEUES)
_PLAIN_ZLIB: Final = 0  # no bits for the method: clients before 5.0 know zlib alone


class Prepared:
    """
    A message, or a batch, ready to be sent to any queue, any number of times.

    @ivar sending: what the client's listeners are told of the send; C{None} if there are none.
    """

    __slots__ = (
        "body",
        "born_ms",
        "code",
        "flag",
        "properties",
        "reconsume",
        "sending",
        "sys_flag",
        "topic",
        "unique_id",
    )

    def __init__(
        self,
        client: Client,
        message: Message,
        compress_from: int,
        group: str = "",
        events: Events | None = None,
        half: bool = False,
    ) -> None:
        """
        @param compress_from: bodies of this many bytes are compressed.
        @param group: the producer group; C{events}: the client's listeners, if they are to hear of the send.
        @param half: whether it is the half message of a transaction of the group.
        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: no broker would take it.
        """
        _check(message)
        found = message.all_properties()
        if half:
            if message.is_delayed:
                raise MessageIllegal("a message of a transaction cannot be delayed")
            found[properties.TRAN_MSG] = "true"
            found[properties.PGROUP] = group
        self.unique_id = found.setdefault(properties.UNIQ_KEY, client.unique_ids.next())
        self.reconsume: tuple[int, int | None] = (0, None)
        if message.topic.startswith(RETRY_PREFIX):
            limit = found.pop(properties.MAX_RECONSUME_TIMES, None)
            times = found.pop(properties.RECONSUME_TIME, "0")
            self.reconsume = (int(times), None if limit is None else int(limit))
        self.code = RequestCode.SEND_MESSAGE_V2
        if found.get(properties.MSG_TYPE) == REPLY:
            self.code = RequestCode.SEND_REPLY_MESSAGE_V2
        self.topic = message.topic
        self.sending = _begun(events, group, message.topic, [found], False)
        try:
            self.properties = properties_text(found)
        except MessageIllegal as error:
            _refused(events, self.sending, error)
            raise
        self.flag = message.flag
        self.body, self.sys_flag = compress_body(
            message.body, PREPARED if half else 0, _PLAIN_ZLIB, threshold=compress_from
        )
        self.born_ms = client.env.clock.wall_ms()
        if self.sending is not None:
            self.sending.body_length = len(self.body)

    @classmethod
    def batch(
        cls, client: Client, messages: Sequence[Message], group: str = "", events: Events | None = None
    ) -> Prepared:
        """
        Prepare several messages of one topic as one request.

        @param group: the producer group; C{events}: the client's listeners, if they are to hear of the send.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: there are none, too many, or such as cannot be in a batch.
        """
        if not 0 < len(messages) <= batch.COUNT_LIMIT:
            raise MessageIllegal(f"a batch has 1 to {batch.COUNT_LIMIT} messages, not {len(messages)}")
        first = messages[0]
        ids: list[str] = []
        all_found: list[dict[str, str]] = []
        for message in messages:
            _check(message)
            if message.topic != first.topic or message.wait != first.wait:
                raise MessageIllegal("the messages of a batch must have the same topic and the same value of wait")
            if message.is_delayed or message.topic.startswith(RETRY_PREFIX):
                raise MessageIllegal("a batch must not contain delayed messages or messages of a retry topic")
            found = message.all_properties()
            ids.append(found.setdefault(properties.UNIQ_KEY, client.unique_ids.next()))
            all_found.append(found)
        sending = _begun(events, group, first.topic, all_found, True)
        try:
            body = _batch_body(messages, all_found)
        except MessageIllegal as error:
            _refused(events, sending, error)
            raise
        made = cls.__new__(cls)
        made.unique_id = ",".join(ids)
        made.sending = sending
        if sending is not None:
            sending.body_length = len(body)
        made.reconsume = (0, None)
        made.code = RequestCode.SEND_BATCH_MESSAGE
        made.topic = first.topic
        made.properties = properties_text({} if first.wait else {properties.WAIT: "false"})
        made.flag = 0
        made.body, made.sys_flag = body, 0
        made.born_ms = client.env.clock.wall_ms()
        return made

    def request(self, group: str, queue: MessageQueue) -> Command:
        """
        Return a new request for one queue; each attempt needs its own, as it gets an opaque.

        Its fields are those of L{SendRequestV2<smartgo.schema.headers.send.SendRequestV2>}, written here as the texts
        that they become: this is done for each message.
        """
        times, limit = self.reconsume
        fields = {
            "n": queue.broker_name,
            "a": group,
            "b": self.topic,
            "c": TEMPLATE_TOPIC,
            "d": _NEW_TOPIC_QUEUES,
            "e": f"{queue.queue_id}",
            "f": f"{self.sys_flag}",
            "g": f"{self.born_ms}",
            "h": f"{self.flag}",
            "i": self.properties,
            "j": f"{times}",
            "k": "false",
            "m": "true" if self.code == RequestCode.SEND_BATCH_MESSAGE else "false",
        }
        if limit is not None:
            fields["l"] = f"{limit}"
        return Command(int(self.code), body=self.body, _fields=fields)


def _begun(
    events: Events | None, group: str, topic: str, messages: Sequence[dict[str, str]], batch: bool
) -> Sending | None:
    """Tell the listeners of a send; return what they are told."""
    if events is None:
        return None
    sending = Sending(group, topic, messages, batch)
    events.send_begun(sending)
    return sending


def _refused(events: Events | None, sending: Sending | None, error: MessageIllegal) -> None:
    """Tell the listeners that a send has ended before its first attempt."""
    if events is not None and sending is not None:
        events.send_ended(sending, error)


def _batch_body(messages: Sequence[Message], all_found: Sequence[dict[str, str]]) -> bytes:
    """
    Return the body of a batch.

    @param all_found: the properties of each message.
    @raise MessageIllegal: it is too long, or properties cannot be sent.
    """
    body = batch.encode_items(
        [
            (message.flag, message.body, properties_text(found).encode("utf-8", "replace"))
            for message, found in zip(messages, all_found, strict=True)
        ]
    )
    if len(body) > BODY_LIMIT:
        raise MessageIllegal(f"batch of {len(body)} B exceeds the limit of {BODY_LIMIT} B")
    return body


def _check(message: object) -> None:
    """Check a message. @raise MessageTypeWrong: it is none; otherwise see L{Message.check}."""
    if not isinstance(message, Message):
        raise MessageTypeWrong(f"give a Message(topic=..., body=...), not a {type(message).__name__}")
    message.check()
