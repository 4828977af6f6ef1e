"""The check of a sent message's topic and queue, which may create the topic (docs/spec/broker#send)."""

from __future__ import annotations

from typing import Final

from smartgo.broker.interfaces import IBroker
from smartgo.broker.tables.topics import WRITE
from smartgo.errors import NoPermission, RequestRefused
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.headers.send import SendRequest
from smartgo.schema.topics import CLOSED_TO_SENDS

_UNIT: Final = 1  # topic sys flag


class SendAdmission:
    """Checks where a message is to go."""

    def __init__(self, broker: IBroker) -> None:
        self._settings = broker.settings.current
        self._topics = broker.topics
        self._random = broker.env.random
        self._address = broker.identity.address

    def admit(self, peer: IPeer, header: SendRequest, config: TopicConfig | None) -> int:
        """
        Check topic and queue, and create the topic if that is allowed.

        @param config: of the topic; C{None}: there is no such topic yet.
        @return: the queue id to use.
        @raise RequestRefused: the topic or the queue takes no messages of clients, or there is no such topic.
        """
        topic = header.topic
        if topic in CLOSED_TO_SENDS:
            raise NoPermission(f"Sending message to topic[{topic}] is forbidden.")
        if config is None:
            config = self._topics.create_for_send(
                topic, header.default_topic, header.default_topic_queue_nums, _UNIT if header.unit_mode else 0, peer
            )
        if not self._settings.broker.broker_permission & WRITE and config.order:
            raise NoPermission(f"the broker[{self._address}] sending message is forbidden")
        queues = max(config.read_queue_nums, config.write_queue_nums)
        queue_id = header.queue_id
        if queue_id >= queues:
            raise RequestRefused(
                f"request queueId[{queue_id}] is illegal, the topic {topic} has {queues} queues. "
                f"Producer: {peer.address}"
            )
        if queue_id < 0:
            queue_id = self._random.below(max(1, config.write_queue_nums))
        return queue_id
