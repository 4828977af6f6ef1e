"""
The conversation of a test with the process of its broker: one JSON object a line.

The process prints a L{Ready} first. Then each line of its standard input is a L{BrokerCall}, and it prints a L{Reply}
to each, in the order in which they are done. It ends when its standard input does.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from smartgo.client.messages import ReceivedMessage, received
from smartgo.errors import BadName, CallFailed, SettingError, SmartgoError
from smartgo.schema.record import decode

LINE_LIMIT: Final = 1 << 28
"""The longest line, in bytes."""
BROKER_NAME: Final = "test-broker"
QUEUES: Final = 4
"""Queues of a topic, if nothing else is asked for."""

T = TypeVar("T")


class Ready(msgspec.Struct):
    """
    The first line of the process.

    @ivar registry: C{host:port} of the registry; C{broker}: of the broker.
    @ivar directory: the temporary directory of its store.
    """

    registry: str
    broker: str
    directory: str


class BrokerCall(msgspec.Struct):
    """
    A request to the process.

    @ivar id: of the reply, chosen by who asks.
    @ivar do: a method of L{smartgo.testing.server.CALLS}.
    @ivar arguments: of that method, by name.
    """

    id: int
    do: str
    arguments: dict[str, Any] = {}


class Reply(msgspec.Struct):
    """
    An answer of the process.

    @ivar result: what was asked for.
    @ivar error: why it failed; C{None}: it did not.
    @ivar kind: the class of the error.
    """

    id: int
    result: Any = None
    error: str | None = None
    kind: str = ""


_ERRORS: Final[Mapping[str, Callable[[str], Exception]]] = {
    "BadName": BadName, "CallFailed": CallFailed, "SettingError": SettingError, "ValueError": ValueError,
}  # fmt: skip
"""Errors that are raised again as they were."""


def command_line(settings: Mapping[str, str] | None) -> list[str]:
    """Return the command that starts a process with these settings."""
    words = [sys.executable, "-m", "smartgo.testing"]
    for name, value in (settings or {}).items():
        words += ["--set", f"{name}={value}"]
    return words


def line(value: msgspec.Struct) -> bytes:
    """Return a value as a line."""
    return msgspec.json.encode(value) + b"\n"


def read(data: bytes, kind: type[T]) -> T:
    """
    Return what a line of the process says.

    @raise CallFailed: the line is empty or none of the process's: the process has ended, or printed something else.
    """
    if not data:
        raise CallFailed("the process of the broker has ended; its standard error says why")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CallFailed(f"the process of the broker printed {data[:200]!r}") from None


def result_of(reply: Reply) -> Any:
    """
    Return the result of a call.

    @raise SmartgoError: the call failed; BadName, CallFailed and SettingError as such.
    @raise ValueError: an argument was wrong.
    """
    if reply.error is not None:
        raise _ERRORS.get(reply.kind, SmartgoError)(reply.error)
    return reply.result


def failed(call: BrokerCall, error: Exception) -> Reply:
    """Return the answer to a call that failed."""
    return Reply(call.id, error=str(error) or type(error).__name__, kind=type(error).__name__)


def as_text(records: Sequence[bytes]) -> list[str]:
    """Return records of messages as JSON can hold them."""
    return [base64.b64encode(record).decode() for record in records]


def as_messages(texts: Sequence[str]) -> list[ReceivedMessage]:
    """Return the messages of such records."""
    return [received(decode(base64.b64decode(text)), BROKER_NAME) for text in texts]
