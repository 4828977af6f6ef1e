"""
The error hierarchy, by what the caller must do.

L{FramingError} closes the connection, L{RequestRefused} answers the request with its C{code} and message as
the remark, L{StoreError} stops a start or a store, L{SettingError} is a user's mistake and is printed as one
sentence. Anything else is a bug: logged with its traceback and answered as a system error.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final


class SmartgoError(Exception):
    """The root of everything smartgo raises on purpose."""


# -- the byte stream ---------------------------------------------------------------------------------------


class FramingError(SmartgoError):
    """The byte stream cannot be followed any further: close the connection."""


_HTTP2: Final = "an HTTP/2 or gRPC client called the remoting port, such as a client of RocketMQ 5 for its proxy"
_HTTP: Final = "an HTTP client called the remoting port; the REST API and the console have a port of their own"
_FOREIGN_CALLERS: Final = {int.from_bytes(b"PRI ", "big"): _HTTP2} | {
    int.from_bytes(word, "big"): _HTTP
    for word in (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC")
}
"""What a length prefix says that is the beginning of another protocol."""
_TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes of a TLS client hello."""


class BadFrameLength(FramingError):
    """
    A length prefix outside its bounds. The message names the protocol if the prefix is the beginning of another one.

    @ivar length: what the prefix announced, in bytes.
    @ivar minimum: the shortest frame accepted, in bytes.
    @ivar limit: the longest frame accepted, in bytes.
    """

    def __init__(self, length: int, minimum: int, limit: int) -> None:
        caller = _FOREIGN_CALLERS.get(length)
        if caller is None and length >> 16 == _TLS_HANDSHAKE:
            caller = "a client called this port by TLS, which is not configured here"
        super().__init__(caller or f"frame of {length} B is outside {minimum}..{limit} B")
        self.length = length
        self.minimum = minimum
        self.limit = limit


class BadHeaderLength(FramingError):
    """
    A header length that does not fit its frame, or an unknown header encoding.

    @ivar length: what the header word announced, in bytes.
    @ivar limit: the longest header possible here, in bytes.
    """

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"header of {length} B exceeds the limit of {limit} B")
        self.length = length
        self.limit = limit


class NoRoom(FramingError):
    """The memory budget has no room for what the peer sends (reliability L14): close the connection."""


class PeerTooSlow(FramingError):
    """The peer kept us waiting past a limit, to speak or to listen (reliability L9, L10, L13): close the connection."""


# -- requests ----------------------------------------------------------------------------------------------


class RequestRefused(SmartgoError):
    """
    The request was understood and declined: answer, keep the connection.

    @cvar code: the response code the peer receives.
    """

    code = 1


class BadHeader(RequestRefused):
    """
    A header that cannot be read, or a field of it that is missing or malformed; the message names it.

    The attributes are for whoever decodes frames: with them an unreadable request can still be answered. An error
    raised later, for a command that was decoded, leaves them at their defaults.

    @ivar opaque: the opaque of the unreadable command, C{None} where it cannot be made out.
    @ivar flag: its flag, C{None} where it cannot be made out.
    @ivar encoding: how it was encoded, and so how to answer: 0 JSON, 1 binary.
    """

    def __init__(self, message: str, opaque: int | None = None, flag: int | None = None, encoding: int = 0) -> None:
        super().__init__(message)
        self.opaque = opaque
        self.flag = flag
        self.encoding = encoding


class BadBody(RequestRefused):
    """A request body that cannot be read (not UTF-8, not JSON, wrong shape)."""


class BadName(RequestRefused):
    """A topic or group name outside the rules of reliability L5."""


class SystemBusy(RequestRefused):
    """Flow control: the request was not begun."""

    code = 2


class CodeNotSupported(RequestRefused):
    """No processor for this request code."""

    code = 3

    def __init__(self, request_code: int) -> None:
        super().__init__(f" request type {request_code} not supported")
        self.request_code = request_code


class MessageIllegal(RequestRefused):
    """A message, its properties or a batch over a limit, or malformed."""

    code = 13


class MessageTypeWrong(MessageIllegal, TypeError):
    """A part of a message is of a wrong type, such as a C{str} as its body; the sentence says what to give."""


class ServiceNotAvailable(RequestRefused):
    """The store takes no messages: shutting down, failed, or its disk full."""

    code = 14


class NoPermission(RequestRefused):
    """The topic, the group or the broker does not allow this."""

    code = 16


class AccessDenied(RequestRefused):
    """Access control does not allow this; code 1, as C{AclException} of RocketMQ 4.9 is answered."""


class InvalidParameter(RequestRefused):
    """A request of RocketMQ 5 that lacks what it is about."""

    code = 29


class TopicNotExist(RequestRefused):
    """No such topic here, and it may not be created on the fly."""

    code = 17


class IllegalOperation(RequestRefused):
    """The operation is not possible, such as the recall of a message that was delivered."""

    code = 604


class QueryNotFound(RequestRefused):
    """No offset, message or setting of that name."""

    code = 22


class SubscriptionParseFailed(RequestRefused):
    """A filter expression that cannot be read."""

    code = 23


class FilterDataNotExist(RequestRefused):
    """A group subscribes by an expression that cannot be read."""

    code = 27


class SubscriptionNotExist(RequestRefused):
    """The group has sent no heartbeat, or does not subscribe to the topic."""

    code = 24


class SubscriptionNotLatest(RequestRefused):
    """The request refers to a newer subscription than the broker has."""

    code = 25


class GroupNotExist(RequestRefused):
    """The subscription group is unknown and may not be created on the fly."""

    code = 26


class ConsumerNotOnline(RequestRefused):
    """The group, or the client asked for, has no connection."""

    code = 206


# -- calls made by us --------------------------------------------------------------------------------------


class CallFailed(SmartgoError):
    """A call to a peer that brought no answer."""


class CallTimedOut(CallFailed):
    """
    No answer within the deadline; the request may or may not have been done.

    @ivar timeout: how long was waited, in seconds.
    """

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(f"{what}: no answer within {timeout:g} s")
        self.timeout = timeout


class ReplyTimedOut(CallTimedOut):
    """A broker stored the request of a client, and no reply to it arrived within the deadline."""


class NotConnected(CallFailed):
    """The connection could not be made, or was lost before the answer came."""


class BrokerUnknown(CallFailed):
    """No broker of this name, or no master of it, is registered."""


class PeerRefused(CallFailed):
    """
    The peer answered with an error code.

    @ivar code: its response code.
    @ivar remark: its words.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"response code {code}: {remark}")
        self.code = code
        self.remark = remark


class NoQueueTakesMessages(PeerRefused):
    """
    A topic has no queue that takes messages at present: writing is not allowed, or no broker of it has a master.

    Its C{code} is 17, that of a topic that does not exist: RocketMQ's clients
    treat both alike.

    @ivar topic: the name of the topic.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(17, f"no queue of topic {topic} takes messages")
        self.topic = topic


class BodyTooLong(SmartgoError):
    """
    A body that would grow past its limit when decompressed.

    @ivar limit: the limit, in bytes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"body exceeds the limit of {limit} B when decompressed")
        self.limit = limit


class BadCompression(SmartgoError):
    """A compressed body that cannot be decompressed, or an unknown method."""


# -- records and the store ---------------------------------------------------------------------------------


class BadRecord(SmartgoError):
    """Bytes that are no valid record; the message says which check failed."""


class BadTrace(SmartgoError):
    """A record of a message trace that cannot be read; the message names the field."""


class StoreError(SmartgoError):
    """The store cannot be opened or has failed; the message is one sentence for the operator."""


class StoreHeld(StoreError):
    """
    Another process owns the store directory.

    @ivar pid: its process id, 0 where the system does not tell.
    """

    def __init__(self, path: str, pid: int) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(f"the store {path} is held by {who}")
        self.pid = pid


class ForeignFile(StoreError):
    """A file of a name or size that does not belong into a store directory; nothing was changed."""


class OutOfPlace(SmartgoError):
    """Bytes of a log that do not begin where the log ends."""


class MessagesKept(SmartgoError):
    """Messages that may not be removed yet; the text says why."""


class LogsDiffer(SmartgoError):
    """A slave's log and its master's are of different histories."""


class LogTorn(SmartgoError):
    """
    A slave's log has records torn by its own power failure, and otherwise equals the master's.

    @ivar records: physical offset -> the master's record there, of the size of ours.
    """

    def __init__(self, records: Mapping[int, bytes]) -> None:
        super().__init__(f"{len(records)} records are torn, the first at {min(records)}; they are repaired")
        self.records = records


class NoSuchMessage(SmartgoError):
    """No readable message at that place."""


class MessageWaits(NoSuchMessage):
    """
    A message is in no topic yet: it waits for its time of delivery.

    @ivar id: its message id.
    @ivar topic: the topic that it will be in.
    @ivar due_ms: its time of delivery, wall clock.
    """

    def __init__(self, id: str, topic: str, due_ms: int) -> None:
        due = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat(" ", "milliseconds")
        super().__init__(
            f"message {id} is not in topic {topic} yet: it waits for its delivery at {due}, unless it was recalled"
        )
        self.id = id
        self.topic = topic
        self.due_ms = due_ms


class NoOrigin(SmartgoError):
    """A message does not say which topic it was first sent to."""


# -- the user ----------------------------------------------------------------------------------------------


class SettingError(SmartgoError):
    """A wrong option, setting or configuration file; printed as it is, exit status 78."""


class BrokenTable(SettingError):
    """
    A saved table whose file and backup are both unreadable.

    @ivar path: the main file.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"neither {path} nor its .bak can be read ({reason}); start with --reset-broken {path} to begin it anew"
        )
        self.path = path
