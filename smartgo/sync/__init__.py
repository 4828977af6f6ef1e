"""
The client for programs that block: the public names of L{smartgo}, whose methods wait for their results.

    >>> from smartgo.sync import Client, Message, Producer
    >>> def greet() -> None:
    ...     with Client("127.0.0.1:9876") as client, Producer(client, "greeters") as producer:
    ...         producer.send(Message(topic="Greetings", body=b"hello"))

A reactor in one daemon thread does the work for all clients of a process. See C{docs/client.rst}.
"""

from smartgo.client.admin import lag_of as lag_of
from smartgo.client.administration.resetplan import ResetPlan as ResetPlan
from smartgo.client.administration.resetplan import ResetTarget as ResetTarget
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
from smartgo.client.litesettings import LitePullSettings as LitePullSettings
from smartgo.client.messages import BODY_LIMIT as BODY_LIMIT
from smartgo.client.messages import Message as Message
from smartgo.client.messages import ReceivedMessage as ReceivedMessage
from smartgo.client.messages import SendResult as SendResult
from smartgo.client.messages import SendStatus as SendStatus
from smartgo.client.pullconsumer import PullResult as PullResult
from smartgo.client.pullconsumer import PullStatus as PullStatus
from smartgo.client.startlater import TLSFiles as TLSFiles
from smartgo.client.tracesettings import Tracing as Tracing
from smartgo.client.transactions import TransactionResult as TransactionResult
from smartgo.client.transactions import TransactionState as TransactionState
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
from smartgo.schema.bodies import ConsumeFromWhere as ConsumeFromWhere
from smartgo.schema.bodies import MessageModel as MessageModel
from smartgo.schema.bodies import MessageQueue as MessageQueue
from smartgo.schema.signature import AccessKey as AccessKey
from smartgo.sync.admin import Admin as Admin
from smartgo.sync.client import Client as Client
from smartgo.sync.consumer import Listener as Listener
from smartgo.sync.consumer import PushConsumer as PushConsumer
from smartgo.sync.litepull import LitePullConsumer as LitePullConsumer
from smartgo.sync.producer import Producer as Producer
from smartgo.sync.pullconsumer import PullConsumer as PullConsumer
from smartgo.sync.transactions import LocalTransaction as LocalTransaction
from smartgo.sync.transactions import TransactionCheck as TransactionCheck
from smartgo.sync.transactions import TransactionProducer as TransactionProducer
