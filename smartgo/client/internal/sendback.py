"""
Return of messages that could not be consumed: the broker redelivers them, or moves them to the dead letters.

Source: C{client/impl/consumer/DefaultMQPushConsumerImpl.java}, C{sendMessageBack}.
"""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from smartgo.client.client import Client, succeeded
from smartgo.client.internal.sending import Sender
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.errors import CallFailed, MessageIllegal
from smartgo.schema import properties
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest
from smartgo.schema.topics import retry_topic

TIMEOUT: Final = 5.0  # seconds
FIRST_LEVEL: Final = 3  # delay level of the first redelivery
DEFAULT_LIMIT: Final = 16

_INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
_NOT_SENT_AGAIN: Final = frozenset(
    {properties.TAGS, properties.KEYS, properties.DELAY, properties.WAIT, properties.UNIQ_KEY, properties.TRAN_MSG}
)


class SendBack:
    """The return of one group's messages to the broker."""

    _log = Logger()

    def __init__(self, client: Client, group: str, limit: int) -> None:
        """
        @param limit: redeliveries before the dead letters; -1 for the broker's choice.
        """
        self._client = client
        self._group = group
        self._limit = limit
        self._sender = Sender(client, _INNER_GROUP, TIMEOUT)

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """
        Make the broker of a message redeliver the message; if that fails, send a copy to the retry topic.

        @param delay_level: see L{smartgo.client.listening.ConsumeLater}.
        @return: whether somebody took it.
        """
        header = SendBackRequest(
            offset=message.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.topic,
            max_reconsume_times=self._limit if self._limit >= 0 else DEFAULT_LIMIT,
        )
        address = self._client.routes.address(message.queue.broker_name)
        try:
            if address is not None and not self._client.env.buggify("client.copy-back"):
                command = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
                succeeded(await self._client.remoting.ask(address, command, TIMEOUT))
                return True
        except CallFailed as error:
            self._log.warn("message {id} cannot be sent back: {error}", id=message.message_id, error=error)
        return await self.send_copy(message)

    async def send_copy(self, message: ReceivedMessage) -> bool:
        """
        Send a copy of a message to the group's retry topic; return whether a broker took it.

        The broker puts it aside if it was delivered too often.
        """
        found = {name: value for name, value in message.properties.items() if name not in _NOT_SENT_AGAIN}
        found.setdefault(properties.RETRY_TOPIC, message.topic)
        found.setdefault(properties.ORIGIN_MESSAGE_ID, message.offset_id)
        found[properties.RECONSUME_TIME] = str(message.reconsume_times + 1)
        found[properties.MAX_RECONSUME_TIMES] = str(self._limit if self._limit >= 0 else DEFAULT_LIMIT)
        # The copy keeps the id by which its producer knows it.
        found[properties.UNIQ_KEY] = message.message_id
        copy = Message(
            topic=retry_topic(self._group),
            body=message.body,
            tag=message.tag,
            keys=message.keys,
            delay_level=FIRST_LEVEL + message.reconsume_times,
            flag=message.flag,
            properties=found,
        )
        try:
            await self._sender.send(self._sender.prepare(copy), self._sender.deadline(None))
        except (CallFailed, MessageIllegal) as error:
            self._log.error("message {id} stays with this consumer: {error}", id=message.message_id, error=error)
            return False
        return True
