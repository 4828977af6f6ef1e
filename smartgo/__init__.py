"""
smartgo: a message broker on Twisted, compatible with RocketMQ's protocol and store files.

The names of this package are its public API, one import line for a program that sends, consumes or administers::

    from smartgo import Client, Message, Producer, RealEnvironment

All other modules are internal: their names may change with any version. A name is loaded when it is asked for, so
C{import smartgo} loads neither Twisted nor the client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from smartgo.client.admin import Admin as Admin
    from smartgo.client.admin import lag_of as lag_of
    from smartgo.client.administration.resetplan import ResetPlan as ResetPlan
    from smartgo.client.administration.resetplan import ResetTarget as ResetTarget
    from smartgo.client.client import Client as Client
    from smartgo.client.consumer import PushConsumer as PushConsumer
    from smartgo.client.filters import Sql as Sql
    from smartgo.client.internal.processqueue import Thresholds as Thresholds
    from smartgo.client.internal.rebalance import AllocateAveragely as AllocateAveragely
    from smartgo.client.internal.rebalance import AllocateByCircle as AllocateByCircle
    from smartgo.client.internal.rebalance import AllocateByConfig as AllocateByConfig
    from smartgo.client.internal.rebalance import AllocateByMachineRoom as AllocateByMachineRoom
    from smartgo.client.internal.rebalance import AllocateConsistentHash as AllocateConsistentHash
    from smartgo.client.internal.rebalance import AllocateMachineRoomNearby as AllocateMachineRoomNearby
    from smartgo.client.internal.rebalance import AllocateStrategy as AllocateStrategy
    from smartgo.client.listening import ConsumeLater as ConsumeLater
    from smartgo.client.listening import ConsumerSettings as ConsumerSettings
    from smartgo.client.listening import Listener as Listener
    from smartgo.client.litepull import LitePullConsumer as LitePullConsumer
    from smartgo.client.litesettings import LitePullSettings as LitePullSettings
    from smartgo.client.messages import BODY_LIMIT as BODY_LIMIT
    from smartgo.client.messages import Message as Message
    from smartgo.client.messages import ReceivedMessage as ReceivedMessage
    from smartgo.client.messages import SendResult as SendResult
    from smartgo.client.messages import SendStatus as SendStatus
    from smartgo.client.producer import Producer as Producer
    from smartgo.client.pullconsumer import PullConsumer as PullConsumer
    from smartgo.client.pullconsumer import PullResult as PullResult
    from smartgo.client.pullconsumer import PullStatus as PullStatus
    from smartgo.client.tracesettings import Tracing as Tracing
    from smartgo.client.transactions import LocalTransaction as LocalTransaction
    from smartgo.client.transactions import TransactionCheck as TransactionCheck
    from smartgo.client.transactions import TransactionProducer as TransactionProducer
    from smartgo.client.transactions import TransactionResult as TransactionResult
    from smartgo.client.transactions import TransactionState as TransactionState
    from smartgo.env.real import RealEnvironment as RealEnvironment
    from smartgo.errors import BadName as BadName
    from smartgo.errors import CallFailed as CallFailed
    from smartgo.errors import CallTimedOut as CallTimedOut
    from smartgo.errors import MessageIllegal as MessageIllegal
    from smartgo.errors import MessageTypeWrong as MessageTypeWrong
    from smartgo.errors import NoSuchMessage as NoSuchMessage
    from smartgo.errors import NotConnected as NotConnected
    from smartgo.errors import PeerRefused as PeerRefused
    from smartgo.errors import ReplyTimedOut as ReplyTimedOut
    from smartgo.errors import SettingError as SettingError
    from smartgo.errors import SmartgoError as SmartgoError
    from smartgo.errors import SubscriptionParseFailed as SubscriptionParseFailed
    from smartgo.net.tls import ClientTLS as ClientTLS
    from smartgo.schema.bodies import ConsumeFromWhere as ConsumeFromWhere
    from smartgo.schema.bodies import MessageModel as MessageModel
    from smartgo.schema.bodies import MessageQueue as MessageQueue
    from smartgo.schema.signature import AccessKey as AccessKey

    __all__: list[str]

_MODULES: Final = {
    "smartgo.client.admin": ("Admin", "lag_of"),
    "smartgo.client.administration.resetplan": ("ResetPlan", "ResetTarget"),
    "smartgo.client.client": ("Client",),
    "smartgo.client.consumer": ("PushConsumer",),
    "smartgo.client.filters": ("Sql",),
    "smartgo.client.internal.processqueue": ("Thresholds",),
    "smartgo.client.internal.rebalance": (
        "AllocateAveragely", "AllocateByCircle", "AllocateByConfig", "AllocateByMachineRoom", "AllocateConsistentHash",
        "AllocateMachineRoomNearby", "AllocateStrategy",
    ),
    "smartgo.client.listening": ("ConsumeLater", "ConsumerSettings", "Listener"),
    "smartgo.client.litepull": ("LitePullConsumer",),
    "smartgo.client.litesettings": ("LitePullSettings",),
    "smartgo.client.messages": ("BODY_LIMIT", "Message", "ReceivedMessage", "SendResult", "SendStatus"),
    "smartgo.client.producer": ("Producer",),
    "smartgo.client.pullconsumer": ("PullConsumer", "PullResult", "PullStatus"),
    "smartgo.client.tracesettings": ("Tracing",),
    "smartgo.client.transactions": (
        "LocalTransaction", "TransactionCheck", "TransactionProducer", "TransactionResult", "TransactionState",
    ),
    "smartgo.env.real": ("RealEnvironment",),
    "smartgo.errors": (
        "BadName", "CallFailed", "CallTimedOut", "MessageIllegal", "MessageTypeWrong", "NoSuchMessage", "NotConnected",
        "PeerRefused", "ReplyTimedOut", "SettingError", "SmartgoError", "SubscriptionParseFailed",
    ),
    "smartgo.net.tls": ("ClientTLS",),
    "smartgo.schema.bodies": ("ConsumeFromWhere", "MessageModel", "MessageQueue"),
    "smartgo.schema.signature": ("AccessKey",),
}  # fmt: skip
"""The module that defines each public name; the imports above say the same to type checkers."""

_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # with __getattr__ a type checker would accept any name
    __all__ = sorted(_HOMES)  # noqa: PLE0605 - sorted gives a list

    def __getattr__(name):
        """Load a public name from the module that defines it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__():
        """List the public names, loaded or not, beside what is here already."""
        return sorted({*globals(), *_HOMES})
