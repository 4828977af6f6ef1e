"""Transactions of programs that block."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from twisted.internet.defer import Deferred

from smartgo.client import transactions as twisted
from smartgo.client.client import Client as TwistedClient
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.transactions import TransactionResult, TransactionState
from smartgo.env.reactorthread import WorkerThreads
from smartgo.errors import SettingError
from smartgo.schema.compression import COMPRESS_FROM
from smartgo.sync.client import Client
from smartgo.sync.producer import Producer

LocalTransaction = Callable[[Message, str], TransactionState]
"""
A function that runs the local transaction of a message: gets the message and the transaction's id, returns the state.
It runs in the thread that sends the message, so that a connection to a database may belong to that thread.

The id is the message's unique id, the C{message_id} of the message that consumers and the check get. Store the id in
the same local transaction, so that the check can look for it.
"""

TransactionCheck = Callable[[ReceivedMessage], TransactionState]
"""
A function that gets a half message and tells what became of the local transaction whose id is its C{message_id}.

A broker asks while it does not know the outcome: because the local transaction ended in C{UNKNOWN}, the producer or the
broker was restarted, or a request was lost. It may ask any producer of the group. The function runs in one of
C{check_concurrency} threads, and may block.
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
        @raise SettingError: the check is a coroutine function.
        """
        _check_plain(check)
        super().__init__(client, group, timeout, retries, compress_from)
        self._check = check
        self._transaction_options = (timeout, retries, compress_from, check_concurrency)
        self._check_concurrency = check_concurrency
        self._context = copy_context()
        self._workers: WorkerThreads | None = None

    def start(self) -> None:
        """
        Join the group. Brokers get a heartbeat as soon as their addresses are known, and every 30 s.

        @raise smartgo.errors.SettingError: the client has a producer of this group already.
        """
        self._context = copy_context()
        super().start()

    def _make(self, client: TwistedClient) -> twisted.TransactionProducer:
        if self._workers is None:
            self._workers = self._client.thread.workers(self._check_concurrency, f"smartgo-{self.group}")
            self._client.call_after_stop(self._end_workers)
        check = partial(_in_thread, self._workers, self._context, self._check)
        return twisted.TransactionProducer(client, self.group, check, *self._transaction_options)

    def _stop(self) -> Deferred[None]:
        return super()._stop().addCallback(lambda _: self._end_workers())

    def _end_workers(self) -> None:
        workers, self._workers = self._workers, None
        self._client.call_no_more(self._end_workers)
        if workers is not None:
            workers.end()

    @property
    def _running(self) -> twisted.TransactionProducer:
        return cast(twisted.TransactionProducer, super()._running)

    def send_in_transaction(
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
        _check_plain(local)
        return self._client.thread.wait_calling(
            lambda call: self._running.send_in_transaction(message, partial(call, local), timeout)
        )


def _check_plain(function: Callable[..., Any]) -> None:
    """@raise SettingError: it is a coroutine function, which nobody would await."""
    if iscoroutinefunction(function):
        raise SettingError("give a plain function; smartgo.aio calls coroutine functions")


def _in_thread(
    workers: WorkerThreads, context: Context, check: TransactionCheck, half: ReceivedMessage
) -> Deferred[TransactionState]:
    return workers.run(context.copy().run, check, half)
