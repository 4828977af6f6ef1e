"""Transactions for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.aio.client import Client
from smartgo.aio.futures import deferring, future_of
from smartgo.aio.producer import Producer
from smartgo.client import transactions as twisted
from smartgo.client.client import Client as TwistedClient
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.transactions import TransactionResult, TransactionState
from smartgo.errors import CallFailed
from smartgo.schema.compression import COMPRESS_FROM

LocalTransaction = Callable[[Message, str], TransactionState | Awaitable[TransactionState]]
"""
A function, plain or C{async}, that runs the local transaction of a message: gets the message and the transaction's id,
returns the state. It runs on the loop and must not block.

The id is the message's unique id, the C{message_id} of the message that consumers and the check get. Store the id in
the same local transaction, so that the check can look for it.
"""

TransactionCheck = Callable[[ReceivedMessage], TransactionState | Awaitable[TransactionState]]
"""
A function, plain or C{async}, that gets a half message and tells what became of the local transaction whose id is its
C{message_id}.

A broker asks while it does not know the outcome: because the local transaction ended in C{UNKNOWN}, the producer or the
broker was restarted, or a request was lost. It may ask any producer of the group. The function runs on the loop and
must not block.
"""


class TransactionProducer(Producer):
    """
    A producer that can also send messages in transactions.

    Every producer of a group answers check-backs for all transactions of the group, so that all of them need the same
    check, and none of them may be a plain L{Producer}.
    """

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
        self._transaction_options = (timeout, retries, compress_from, check_concurrency)

    def _make(self, client: TwistedClient) -> twisted.TransactionProducer:
        return twisted.TransactionProducer(client, self.group, _asking(self._check), *self._transaction_options)

    @property
    def _running(self) -> twisted.TransactionProducer:
        return cast(twisted.TransactionProducer, super()._running)

    async def send_in_transaction(
        self, message: Message, local: LocalTransaction, timeout: float | None = None
    ) -> TransactionResult:
        """
        Send a message that consumers get only if a local transaction commits.

        The broker stores a half message, which no consumer sees. Then C{local} runs, and the broker is told what it
        returned; that request has no answer. Where the broker does not learn the outcome it asks L{TransactionCheck}.
        The local transaction does not run if the send fails, or if the half message is not as durable as the broker's
        settings ask; the message is rolled back then.

        @param local: runs the local transaction. If it raises, the exception is logged and is C{error} of the result,
            and the state is C{UNKNOWN}: the broker asks.
        @param timeout: seconds for the send of the half message; C{None} for the producer's.
        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: the message breaks a limit or a rule, or is delayed.
        @raise PeerRefused: the broker declined the half message.
        @raise CallFailed: no broker answered in time; the local transaction did not run.
        """
        return await future_of(self._running.send_in_transaction(message, _asking(local), timeout))


def _asking(function: Callable[..., Any]) -> Callable[..., Deferred[Any]]:
    """Return a function that asks the application's for a state; a task that is cancelled has failed to tell one."""
    call = deferring(function)

    def ask(*arguments: Any) -> Deferred[Any]:
        return call(*arguments).addErrback(_cancelled)

    return ask


def _cancelled(failure: Failure) -> None:
    """@raise CallFailed: the task was cancelled; that is no C{Exception}, and any other failure goes on as it is."""
    failure.trap(asyncio.CancelledError)
    raise CallFailed("the task that was to tell the state of a transaction was cancelled")
