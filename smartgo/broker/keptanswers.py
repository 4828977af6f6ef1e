"""
Other answers to sends in place of those that say 0: the hub keeps these until the messages are as safe as promised.

A run of sends writes the answer that a send will most likely get, and the hub keeps its bytes. Where the disk or a
slave falls short, what is sent instead is made of them: the messages are stored all the same (docs/spec/broker#send,
reliability D2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

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
