"""
Other answers to sends in place of those that say 0: the hub keeps these until the messages are as safe as promised.

A run of sends writes the answer that a send will most likely get, and the hub keeps its bytes. Where the disk or a
slave falls short, what is sent instead is made of them: the messages are stored all the same (docs/spec/broker#send,
reliability D2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.errors import ServiceNotAvailable
from smartgo.remoting.dispatch import STOPPING
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headers.send import SendResponse
from smartgo.store.interfaces import PutStatus

REMARKS: Final = {
    PutStatus.FLUSH_DISK_TIMEOUT: "flush disk timeout, may be the disk is slow or broken",
    PutStatus.SLAVE_NOT_AVAILABLE: "slave not available",
    PutStatus.FLUSH_SLAVE_TIMEOUT: "flush slave timeout",
}

_LENGTH: Final = 4  # bytes before a frame

_log = Logger()


def tell_when(waiting: Deferred[PutStatus] | None, tell: Callable[[Callable[[bytes], bytes] | None], None]) -> None:
    """
    Tell when kept answers may leave; see L{RunSource.when_durable<smartgo.net.hub.RunSource.when_durable>}.

    @param waiting: the status of what they are about; C{None}: it is durable. If it fails, which is a bug, the messages
        are stored all the same, and the answers say that no flush was waited for to its end.
    """
    if waiting is None:
        tell(None)
        return
    waiting.addErrback(_unknown)
    waiting.addCallback(lambda status: tell(None if status is PutStatus.OK else partial(weaker, status)))
    waiting.addErrback(lambda failure: _log.failure("kept answers cannot leave", failure))


def _unknown(failure: Failure) -> PutStatus:
    _log.failure("it cannot be told whether stored messages are durable", failure)
    return PutStatus.FLUSH_DISK_TIMEOUT


def weaker(status: PutStatus, answers: bytes) -> bytes:
    """Return answers with a status and its remark, and the whole header all the same, in place of those that say 0."""
    return _changed(answers, lambda one: one.answer(status, REMARKS.get(status), one.read(SendResponse)))


def given_up(answers: bytes) -> bytes:
    """Return answers that refuse (14), as the server stops, in place of those that say 0."""
    return _changed(answers, lambda one: one.answer(ServiceNotAvailable.code, STOPPING))


def _changed(answers: bytes, change: Callable[[Command], Command]) -> bytes:
    return b"".join([encode(change(decode(frame))) for frame in _frames(answers)])


def _frames(answers: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(answers):
        begin = at + _LENGTH
        at = begin + int.from_bytes(answers[at:begin], "big")
        yield answers[begin:at]
