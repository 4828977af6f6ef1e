"""The body of smartgo's own request for the queues that a broker does not have (30006), and its answer."""

from __future__ import annotations

from smartgo.schema.bodies.shape import Body, always
from smartgo.schema.headerfields import Int64


class QueueNames(Body):
    """
    Queues by name.

    @ivar queue_table: the queue ids of each topic.
    """

    queue_table: dict[str, list[int]] = always({})


class MissingQueues(QueueNames):
    """
    The queues of a request that the broker does not have, not even empty after their last message expired.

    @ivar log_begin: physical offset of the first byte of the broker's log; C{log_end} behind its last.
    """

    log_begin: Int64 = always(0)
    log_end: Int64 = always(0)
