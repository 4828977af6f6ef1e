"""The answer to smartgo's own request for the transactions of a broker (30007)."""

from __future__ import annotations

from smartgo.schema.bodies.shape import Body, Double, always
from smartgo.schema.headerfields import Int64


class TransactionEntry(Body):
    """
    One transaction.

    @ivar id: UNIQ_KEY of its message; empty without one.
    @ivar state: C{pending}, C{givenUp}, C{committed}, C{rolledBack}, or C{unknown}: it is not remembered.
    @ivar group: of its producer; C{topic}: where a commit puts its message.
    @ivar offset_id: of the latest copy of its half message, or of the message in TRANS_CHECK_MAX_TIME_TOPIC that a
        check can be resumed by (323).
    @ivar queue_offset: of that copy in its queue.
    @ivar born: when its producer made it, by the producer's clock, in milliseconds since the epoch.
    @ivar given_up: when it was given up, likewise by the broker's clock; 0: it was not.
    @ivar checks: check-backs so far.
    @ivar immunity: its CHECK_IMMUNITY_TIME_IN_SECONDS in milliseconds; -1 without one.
    @ivar producers: connected members of its producer group, which can be asked.
    """

    id: str = always("")
    state: str = always("unknown")
    group: str = always("")
    topic: str = always("")
    offset_id: str = always("")
    queue_offset: Int64 = always(-1)
    born: Int64 = always(0)
    given_up: Int64 = always(0)
    checks: Int64 = always(0)
    immunity: Int64 = always(-1)
    producers: Int64 = always(0)


class TransactionTable(Body):
    """
    Some transactions of a broker.

    @ivar rows: as many as were asked for, or fewer.
    @ivar next: C{begin} of the next request; -1: there are no more.
    @ivar pending: undecided transactions, of all groups and topics.
    @ivar given_up: messages in TRANS_CHECK_MAX_TIME_TOPIC, decided meanwhile or not.
    @ivar interval: C{transactionCheckInterval}, in seconds; C{first}: C{transactionTimeOut}, in seconds.
    @ivar limit: C{transactionCheckMax}.
    """

    rows: list[TransactionEntry] = always([])
    next: Int64 = always(-1)
    pending: Int64 = always(0)
    given_up: Int64 = always(0)
    interval: Double = always(0.0)
    first: Double = always(0.0)
    limit: Int64 = always(0)
