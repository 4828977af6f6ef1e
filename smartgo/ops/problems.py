"""
Errors as clients see them: problem bodies of RFC 9457, and which error becomes which.

A body says C{type}, C{title}, C{status} and C{detail}, as the RFC has it, and besides C{code}, a word that programs may
rely on, C{message}, which repeats the detail, and C{requestId}, by which the log can be searched (reliability B10). It
never holds a stack, a path or a version.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from smartgo.errors import (
    BadBody,
    BadHeader,
    BadName,
    CallFailed,
    CallTimedOut,
    MessageIllegal,
    NoOrigin,
    NoSuchMessage,
    PeerRefused,
    RequestRefused,
    SmartgoError,
    SubscriptionParseFailed,
)
from smartgo.schema.codes import ResponseCode

TITLES: Final[Mapping[int, str]] = {
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    414: "URI Too Long",
    415: "Unsupported Media Type",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}

UNKEPT: Final[Mapping[int, str]] = {507: "The change could not be written to disk; nothing was changed."}
"""For routes that change what must be there after a restart."""

_WORDS: Final[Mapping[int, str]] = {
    status: title.lower().replace(" ", "-") for status, title in TITLES.items() if status >= 400
}

_CUT: Final = 512  # characters of a detail
_STATUS_OF_CODE: Final[Mapping[int, int]] = {
    ResponseCode.SYSTEM_BUSY: 503,
    ResponseCode.MESSAGE_ILLEGAL: 400,
    ResponseCode.SERVICE_NOT_AVAILABLE: 503,
    ResponseCode.NO_PERMISSION: 403,
    ResponseCode.TOPIC_NOT_EXIST: 404,
    ResponseCode.QUERY_NOT_FOUND: 404,
    ResponseCode.SUBSCRIPTION_PARSE_FAILED: 400,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: 404,
}
"""What a broker's refusal becomes; any other is 409: it is there, and does not allow this now."""

_BAD_REQUESTS: Final = (BadName, BadBody, BadHeader, MessageIllegal, SubscriptionParseFailed)


class Problem(SmartgoError):
    """
    An answer that is an error.

    @ivar status: of the response.
    @ivar code: a word for programs, such as C{topic-not-found}.
    @ivar headers: that go with it.
    """

    def __init__(self, status: int, detail: str, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        """
        @param code: by default the status in words.
        """
        super().__init__(detail)
        self.status = status
        self.code = code or _WORDS[status]
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> bytes:
        """Return the JSON for the client."""
        detail = "".join(one if one.isprintable() else " " for one in str(self)[:_CUT])
        return msgspec.json.encode(self.shown(TITLES[self.status], detail, request_id))

    def shown(self, title: str, detail: str, request_id: str) -> ProblemBody:
        """Return what the client is told."""
        return ProblemBody(title, self.status, detail, self.code, detail, request_id)


def as_response(problem: Problem, request_id: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """Return a whole response of HTTP/1.1 that is this error, and after which the connection is closed."""
    body = problem.body(request_id)
    return b"".join(
        (
            b"HTTP/1.1 %d %s\r\n" % (problem.status, TITLES[problem.status].encode()),
            b"Content-Type: application/problem+json\r\nContent-Length: %d\r\n" % len(body),
            b"Cache-Control: no-store\r\nConnection: close\r\n",
            *(b"%s: %s\r\n" % one for one in headers),
            b"\r\n",
            body,
        )
    )


class ProblemBody(msgspec.Struct, rename="camel"):
    """An error, in the form of RFC 9457."""

    title: str
    status: int
    detail: str
    code: str
    message: str
    request_id: str
    type: str = "about:blank"


def not_kept(error: OSError, path: str, done: str = "nothing was changed") -> Problem:
    """
    Return what it is that something could not be written which must be there after a restart.

    @param path: of the file.
    @param done: what became of the change.
    """
    reason = f"{posixpath.basename(path)} could not be written: {error.strerror or error}"
    return Problem(507, f"{done}: {reason}", "not-kept")


def problem_of(error: BaseException) -> Problem | None:
    """Return the problem that an error is to the client; C{None}: it is a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, PeerRefused | RequestRefused) and not isinstance(error, _BAD_REQUESTS):
        status = _STATUS_OF_CODE.get(error.code, 409)
        text = error.remark if isinstance(error, PeerRefused) else str(error)
        return Problem(status, text or f"refused with code {error.code}", _word(error.code, status))
    if isinstance(error, _BAD_REQUESTS):
        return Problem(400, str(error))
    if isinstance(error, CallTimedOut):
        return Problem(504, str(error))
    if isinstance(error, CallFailed):
        return Problem(502, str(error))
    if isinstance(error, NoSuchMessage):
        return Problem(404, str(error), "message-not-found")
    if isinstance(error, NoOrigin):
        return Problem(409, str(error), "no-origin")
    return None


def _word(code: int, status: int) -> str:
    try:
        return ResponseCode(code).name.lower().replace("_", "-")
    except ValueError:
        return _WORDS[status]
