"""
Sending messages in transactions: a message that consumers get only if a local transaction commits.

See C{docs/transactions.rst} for an example. Rules: docs/spec/client#transactions. Source:
C{client/impl/producer/DefaultMQProducerImpl.java} of 4.9.8, C{sendMessageInTransaction}, C{checkTransactionState}.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Final, TypeAlias

from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.logger import Logger

from smartgo.client.client import Client
from smartgo.client.internal.tracing import events_of
from smartgo.client.internal.verdicts import ended, verdict_on_check, verdict_on_half
from smartgo.client.messages import Message, ReceivedMessage, SendResult, SendStatus
from smartgo.client.producer import Producer
from smartgo.errors import BadHeader, CallFailed
from smartgo.schema import properties
from smartgo.schema.command import Command
from smartgo.schema.compression import COMPRESS_FROM
from smartgo.schema.headers.transaction import CheckTransactionRequest
from smartgo.schema.message import COMMIT, ROLLBACK

CHECKS_WAITING: Final = 2000
"""Check-backs of a producer that may wait for their turn; the broker asks again for those above."""


class TransactionState(Enum):
    """The outcome of a local transaction; the values are those of RocketMQ's requests."""

    COMMIT = COMMIT
    ROLLBACK = ROLLBACK
    UNKNOWN = 0


_JAVA_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}

LocalTransaction: TypeAlias = (
    "Callable[[Message, str], TransactionState | Deferred[TransactionState] | Awaitable[TransactionState]]"
)
"""
A function that runs the local transaction of a message: gets the message and the transaction's id, returns the state,
at once or by a Deferred or a coroutine. It runs on the reactor thread and must not block.

The id is the message's unique id, the C{message_id} of the message that consumers and the check get. Store
the id in the same local transaction, so that the check can look for it.
"""

TransactionCheck: TypeAlias = (
    "Callable[[ReceivedMessage], TransactionState | Deferred[TransactionState] | Awaitable[TransactionState]]"
)
"""
A function that gets a half message and tells what became of the local transaction whose id is its C{message_id}.

A broker asks while it does not know the outcome: because the local transaction ended in C{UNKNOWN}, the producer or the
broker was restarted, or a request was lost. It may ask any producer of the group. The function runs on the reactor
thread and must not block.
"""


class TransactionResult(SendResult, frozen=True, kw_only=True):
    """
    The result of a send in a transaction.

    @ivar state: what the broker was told: what the local transaction returned; C{ROLLBACK} without running it where the
        half message is less durable than the broker's settings ask; C{UNKNOWN} where it raised.
    @ivar error: what the local transaction raised; C{None} for nothing.
    """

    state: TransactionState
    error: Exception | None = None


class TransactionProducer(Producer):
    """
    A producer that can also send messages in transactions.

    Every producer of a group answers check-backs for all transactions of the group, so that all of them need the same
    check, and none of them may be a plain L{Producer}.
    """

    _log = Logger()

    def __init__(
        self,
        client: Client,
        group: str,
        check: TransactionCheck,
        timeout: float = 3.0,
        retries: int = 2,
        compress_from: int = COMPRESS_FROM,
        check_concurrency: int = 20,
    ) -> None:
        """
        @param check: tells what became of a transaction when a broker asks.
        @param timeout: seconds for a send with all its attempts.
        @param retries: attempts after the first, at another broker if there is one.
        @param compress_from: the size in bytes from which bodies are compressed by zlib.
        @param check_concurrency: the maximum number of calls of C{check} at a time.
        @raise BadName: the group's name breaks the rules.
        """
        super().__init__(client, group, timeout, retries, compress_from)
        self._check = check
        self._turns = DeferredSemaphore(check_concurrency)
        self._dropped = 0  # check-backs since the first one that found no room

    def send_in_transaction(
        self, message: Message, local: LocalTransaction, timeout: float | None = None
    ) -> Deferred[TransactionResult]:
        """
        Send a message that consumers get only if a local transaction commits.

        The broker stores a half message, which no consumer sees. Then C{local} runs, and the broker is told what it
        returned; that request has no answer. Where the broker does not learn the outcome it asks L{TransactionCheck}.
        The local transaction does not run if the send fails, or if the half message is not as durable as the broker's
        settings ask; the message is rolled back then.

        @param local: runs the local transaction. If it raises, the exception is logged and is C{error} of the result,
            and the state is C{UNKNOWN}: the broker asks.
        @param timeout: seconds for the send of the half message; C{None} for the producer's.
        @raise BadName: through the Deferred: the topic's name breaks the rules.
        @raise MessageIllegal: through the Deferred: the message breaks a limit or a rule, or is delayed.
        @raise PeerRefused: through the Deferred: the broker declined the half message.
        @raise CallFailed: through the Deferred: no broker answered in time; the local transaction did not run.
        """
        return self._run(self._send_in_transaction(message, local, timeout))

    async def _send_in_transaction(
        self, message: Message, local: LocalTransaction, timeout: float | None
    ) -> TransactionResult:
        sent = await self._sender.send(self._sender.prepare_half(message), self._sender.deadline(timeout))
        state, error = TransactionState.ROLLBACK, None
        if sent.status == SendStatus.SEND_OK:
            state, error = await self._state_of(lambda: local(message, sent.message_id), sent.message_id)
        await self._tell_verdict(message, sent, state, error)
        return TransactionResult(
            status=sent.status,
            message_id=sent.message_id,
            offset_id=sent.offset_id,
            queue=sent.queue,
            queue_offset=sent.queue_offset,
            state=state,
            error=error,
        )

    async def _tell_verdict(
        self, message: Message, sent: SendResult, state: TransactionState, error: Exception | None
    ) -> None:
        try:
            address = self._client.routes.address(sent.queue.broker_name)
            if address is None:
                raise CallFailed(f"broker {sent.queue.broker_name} has no master now")
            found = {**message.all_properties(), properties.UNIQ_KEY: sent.message_id}
            self._tell_events(message.topic, found, address, sent.message_id, state, False)
            await self._client.remoting.tell(address, verdict_on_half(self.group, sent, state.value, error))
        except (CallFailed, BadHeader) as failure:
            self._log.warn(
                "the broker was not told that transaction {id} ended in {state}, and will ask: {error}",
                id=sent.message_id,
                state=state.name,
                error=failure,
            )

    def check_back(self, address: str, request: CheckTransactionRequest, half: ReceivedMessage) -> None:
        """Ask the check what became of a transaction, and tell the broker. The client calls this."""
        if not self._running:
            return
        if len(self._turns.waiting) >= CHECKS_WAITING:
            if not self._dropped:
                self._log.warn("check-backs of group {group} are dropped: too many wait", group=self.group)
            self._dropped += 1
            return
        self._dropped = 0
        asked = self._turns.run(lambda: Deferred.fromCoroutine(self._answer(address, request, half)))
        asked.addErrback(lambda failure: self._log.failure("a check-back of group {group}", failure, group=self.group))

    async def _answer(self, address: str, request: CheckTransactionRequest, half: ReceivedMessage) -> None:
        state, error = await self._state_of(lambda: self._check(half), half.message_id)
        found = {**half.properties, properties.UNIQ_KEY: half.message_id}
        topic = found.get(properties.REAL_TOPIC, half.topic)
        self._tell_events(topic, found, address, request.transaction_id or half.message_id, state, True)
        verdict = verdict_on_check(self.group, request, half.message_id, state.value, error)
        await self._tell_checked(address, verdict, half.message_id)

    def _tell_events(
        self, topic: str, found: dict[str, str], address: str, id: str, state: TransactionState, from_check: bool
    ) -> None:
        events = events_of(self._client)
        if events:
            events.transaction_ended(self.group, topic, found, address, id, _JAVA_NAMES[state], from_check)

    async def _tell_checked(self, address: str, verdict: Command, message_id: str) -> None:
        try:
            await self._client.remoting.tell(address, verdict)
        except CallFailed as failure:
            self._log.warn(
                "broker {address} was not told what became of transaction {id}, and will ask again: {error}",
                address=address,
                id=message_id,
                error=failure,
            )

    async def _state_of(self, work: Callable[[], object], message_id: str) -> tuple[TransactionState, Exception | None]:
        """Return what the application's function returns; C{UNKNOWN} with the exception if it raises."""
        try:
            state = await ended(work())
            if not isinstance(state, TransactionState):
                raise TypeError(f"return a TransactionState, not {type(state).__name__}")
        except Exception as error:
            self._log.failure("the outcome of transaction {id} is not known to the program", id=message_id)
            return TransactionState.UNKNOWN, error
        return state, None
