"""All request processors of one broker, and the dispatchers of its two ports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from smartgo.broker.figures.queuestats import QueueStats
from smartgo.broker.filter import SQL92, FilterCache
from smartgo.broker.interfaces import IBroker
from smartgo.broker.network import BrokerSecurity
from smartgo.broker.processors.accessadmin import AccessAdmin
from smartgo.broker.processors.brokeradmin import BrokerAdmin
from smartgo.broker.processors.clientadmin import ClientAdmin
from smartgo.broker.processors.endtransaction import TransactionProcessor
from smartgo.broker.processors.groupadmin import GroupAdmin
from smartgo.broker.processors.heartbeat import HeartbeatProcessor
from smartgo.broker.processors.masteronly import MasterOnly
from smartgo.broker.processors.messagerecall import RecallProcessor
from smartgo.broker.processors.offsets import OffsetProcessor
from smartgo.broker.processors.progressadmin import ProgressAdmin
from smartgo.broker.processors.pull import PullProcessor
from smartgo.broker.processors.query import QueryProcessor
from smartgo.broker.processors.queueadmin import QueueAdmin
from smartgo.broker.processors.queuelocks import LockTable, RebalanceProcessor
from smartgo.broker.processors.reply import ReplyProcessor
from smartgo.broker.processors.requestcodes import MAIN_PORT_ALONE
from smartgo.broker.processors.send import SendProcessor
from smartgo.broker.processors.sendback import SendBackProcessor
from smartgo.broker.processors.storeadmin import StoreAdmin
from smartgo.broker.processors.topicadmin import TopicAdmin
from smartgo.broker.processors.transactionadmin import TransactionAdmin
from smartgo.broker.processors.useradmin import UserAdmin
from smartgo.broker.sql.lazyparser import LazyParser
from smartgo.broker.stages.sendstages import send_stages
from smartgo.remoting.buglog import BugLog
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IRequestProcessor


class RequestProcessors:
    """
    The processors of one broker; L{smartgo.broker.processors.requestcodes} says which request each of them answers.

    @ivar heartbeat: hears when a connection ends, and is stopped with the broker.
    @ivar dispatcher: of the main port.
    @ivar second_dispatcher: of the second port.
    """

    def __init__(self, broker: IBroker, more: Sequence[IRequestProcessor], security: BrokerSecurity) -> None:
        """
        @param more: processors of replication.
        @param security: access control; settings may be changed over the network where it is on (reliability X7).
        """
        hooks = security.hooks
        grants = next((hook.grants for hook in hooks), None)  # the dispatcher sees whether they are enough
        clock, limits = broker.env.clock, broker.settings.current.limits
        by_properties = broker.settings.current.broker.enable_property_filter
        parser = LazyParser(broker.env.threads)
        filters = FilterCache(parser.parse if by_properties else None)
        compile_filter = partial(filters.sql, SQL92) if by_properties else None
        self.heartbeat = HeartbeatProcessor(broker, compile_filter, parser.prepare)
        taking_messages: Sequence[IRequestProcessor] = (
            (MasterOnly(broker),)
            if broker.is_slave or broker.transactions is None
            else (
                SendProcessor(broker, send_stages(broker), grants),
                SendBackProcessor(broker),
                RecallProcessor(broker),
                ReplyProcessor(broker),
                TransactionProcessor(broker, broker.transactions),
                TransactionAdmin(broker, broker.transactions),
            )
        )
        processors: Sequence[IRequestProcessor] = (
            *taking_messages,
            *more,
            PullProcessor(broker, filters, grants),
            OffsetProcessor(broker),
            QueryProcessor(broker),
            self.heartbeat,
            RebalanceProcessor(broker, LockTable(clock, broker.memory_budget, limit=limits.max_queue_locks)),
            TopicAdmin(broker),
            GroupAdmin(broker),
            ProgressAdmin(broker),
            ClientAdmin(broker),
            QueueAdmin(broker, filters),
            StoreAdmin(broker),
            AccessAdmin(broker, security.change),
            UserAdmin(broker, security.change),
            BrokerAdmin(
                broker.stats,
                broker.settings,
                QueueStats(clock, broker.topics, broker.store),
                (broker.runtime_info.entries,),
                remote_config=security.control is not None,
            ),
        )
        bugs = BugLog()
        self.dispatcher = Dispatcher(processors, hooks, bugs=bugs)
        self.second_dispatcher = Dispatcher(processors, hooks, without=MAIN_PORT_ALONE, bugs=bugs)
