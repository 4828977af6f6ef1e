"""
The client for asyncio: the public names of L{smartgo}, with coroutine functions where Twisted has Deferreds.

    >>> from smartgo.aio import Client, Message, Producer
    >>> async def greet() -> None:
    ...     async with Client("127.0.0.1:9876") as client, Producer(client, "greeters") as producer:
    ...         await producer.send(Message(topic="Greetings", body=b"hello"))

It runs on the asyncio loop that runs, without a thread and without an installed reactor. See C{docs/client.rst}.
"""

from smartgo.aio.admin import Admin as Admin
from smartgo.aio.client import Client as Client
from smartgo.aio.consumer import Listener as Listener
from smartgo.aio.consumer import PushConsumer as PushConsumer
from smartgo.aio.litepull import LitePullConsumer as LitePullConsumer
from smartgo.aio.producer import Producer as Producer
from smartgo.aio.pullconsumer import PullConsumer as PullConsumer
from smartgo.aio.transactions import LocalTransaction as LocalTransaction
from smartgo.aio.transactions import TransactionCheck as TransactionCheck
from smartgo.aio.transactions import TransactionProducer as TransactionProducer
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
