"""The stages that a message which is not plain passes, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.stages.delay import Delay
from smartgo.broker.stages.retrylimit import RetryLimit
from smartgo.broker.stages.timed import Timed
from smartgo.broker.stages.transactionhalf import TransactionHalf


def send_stages(broker: IBroker) -> Sequence[ISendStage]:
    """
    Return the stages of one broker; a new stage is a module beside these and a line here.

    A plain send and a batch pass no stage: a check of every send belongs in L{smartgo.broker.processors.send}.
    """
    return (
        TransactionHalf(broker),
        RetryLimit(broker),
        Timed(broker),
        Delay(broker),
    )
