"""The settings of a lite pull consumer."""

from __future__ import annotations

import msgspec

from smartgo.client.internal.processqueue import Thresholds
from smartgo.client.internal.rebalance import STRATEGIES, AllocateStrategy
from smartgo.client.internal.settingchecks import (
    check_flag,
    check_int,
    check_kind,
    check_member,
    check_optional_int,
    check_seconds,
    check_strategy,
)
from smartgo.client.listening import ConsumerSettings
from smartgo.schema.bodies import ConsumeFromWhere, MessageModel


class LitePullSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    The settings of a lite pull consumer. A value that its field cannot have raises C{SettingError}.

    @ivar model: whether the members of the group share the messages (C{CLUSTERING}) or each get all of them
        (C{BROADCASTING}; offsets are saved in a file on this machine then).
    @ivar begin: where the group begins in a queue that it has never read: at the end, at its first message, or at
        C{begin_ms}.
    @ivar begin_ms: wall clock in ms, for C{CONSUME_FROM_TIMESTAMP}; C{None} for half an hour before the start.
    @ivar strategy: assigns the queues to the members of the group; it must be the same for all members.
    @ivar batch: the maximum number of messages in a pull, and in the result of a poll.
    @ivar auto_commit: commit messages when the poll after theirs begins, and not when the consumer stops; else only
        L{LitePullConsumer.commit} does.
    @ivar commit_interval: seconds between two transfers of committed offsets to the brokers.
    @ivar poll_timeout: seconds that a poll waits for a message.
    @ivar thresholds: the limits of fetched messages at which pulling of a queue pauses.
    @ivar count_of_all: the number of fetched messages of all queues above which all pulling pauses.
    @ivar offsets_directory: for C{BROADCASTING}; C{None} for C{.rocketmq_offsets} in the user's home.
    """

    model: MessageModel = MessageModel.CLUSTERING
    begin: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    begin_ms: int | None = None
    strategy: AllocateStrategy = STRATEGIES["AVG"]
    batch: int = 10
    auto_commit: bool = True
    commit_interval: float = 5.0
    poll_timeout: float = 5.0
    thresholds: Thresholds = Thresholds()
    count_of_all: int = 10_000
    offsets_directory: str | None = None

    def __post_init__(self) -> None:
        """@raise smartgo.errors.SettingError: a value is none that its field can have."""
        check_member(self, "model", MessageModel)
        check_member(self, "begin", ConsumeFromWhere)
        check_optional_int(self, "begin_ms", least=0)
        check_strategy(self, "strategy")
        check_int(self, "batch")
        check_int(self, "count_of_all")
        check_flag(self, "auto_commit")
        check_seconds(self, "commit_interval")
        check_seconds(self, "poll_timeout", or_none_at_all=True)
        check_kind(self, "thresholds", Thresholds, "a Thresholds")
        check_kind(self, "offsets_directory", str | None, "the path of a directory as a str, or None")

    def consuming(self) -> ConsumerSettings:
        """Return what these settings say about the membership in the group and about pulls."""
        return ConsumerSettings(
            model=self.model,
            begin=self.begin,
            begin_ms=self.begin_ms,
            strategy=self.strategy,
            pull_batch=self.batch,
            thresholds=self.thresholds,
        )
