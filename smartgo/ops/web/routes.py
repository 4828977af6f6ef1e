"""
Declare routes: parsing, checks and the OpenAPI document follow from one declaration.

    >>> class Greetings:
    ...     @route("GET", "/greetings/{name}", scope=READ, path_type=Named, answer=Greeting)
    ...     async def show(self, call: Call[Named, None, None]) -> Greeting:
    ...         \"\"\"Greet somebody.\"\"\"
    ...         return Greeting(call.path.name)

A resource is any object with methods declared so, and L{smartgo.ops.web.application.RestApplication} is made of them.
Structs are C{msgspec.Struct}s whose fields say limits and descriptions by C{msgspec.Meta}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from smartgo.net.endpoints import address_block
from smartgo.ops.security.principals import ADMIN, NOBODY, PUBLISH, READ, Principal
from smartgo.ops.web.partial import Missing

__all__ = [
    "ADMIN",
    "NOBODY",
    "PUBLISH",
    "READ",
    "LinesAnswer",
    "Raw",
    "RestRoute",
    "RouteCall",
    "StreamAnswer",
    "route",
    "routes_of",
]

BODY_LIMIT: Final = 64 * 1024
"""Bytes of a request's body (reliability L22)."""
BODIES: Final = 64 * 1024 * 1024
"""Bytes of incomplete bodies of all requests together: their senders are not authenticated yet."""
PUBLISH_LIMIT: Final = 4 * 1024 * 1024 + BODY_LIMIT
"""Bytes of a body that holds a message: its 4 MiB, and what stands around it."""

_MARK: Final = "__smartgo_route__"

P = TypeVar("P")
Q = TypeVar("Q")
B = TypeVar("B")
M = TypeVar("M", bound=Callable[..., Any])


def _everything(name: str) -> bool:
    return True


class RouteCall(Generic[P, Q, B]):
    """
    One request with its checked path, query and body.

    @ivar path: the names in the path; C{query} and C{body} what came with it; each C{None} where none was declared.
    @ivar principal: who asks.
    @ivar address: from where: an IP address.
    @ivar secure: whether by TLS.
    @ivar request_id: stands in the answer and in the log.
    @ivar headers: headers for the answer, to be added to.
    @ivar noted: words for the audit log besides path and body, to be added to.
    @ivar missing: who is missing from the answer; a L{Partial<smartgo.ops.web.partial.Partial>} one names them.
    @ivar sees: tells whether a name may stand in the list that is asked for.
    @ivar gone: whether the client has gone away meanwhile.
    """

    def __init__(
        self, path: P, query: Q, body: B, principal: Principal, address: str, request_id: str, secure: bool = False
    ) -> None:
        self.path = path
        self.query = query
        self.body = body
        self.principal = principal
        self.address = address
        self.secure = secure
        self.request_id = request_id
        self.headers: dict[str, str] = {}
        self.cookies: list[bytes] = []
        self.noted: dict[str, Any] = {}
        self.gone = False
        self.missing = Missing()
        self.sees: Callable[[str], bool] = _everything

    @property
    def owner(self) -> str:
        """The owner of the request's share of scarce resources: a name, and an address or a network of IPv6."""
        return f"{self.principal.name} {address_block(self.address)}"


class Raw(NamedTuple):
    """An answer that is not JSON: an export, a page, metrics."""

    content: bytes
    content_type: str
    headers: Mapping[str, str] = {}


class StreamAnswer:
    """
    An answer that goes on: declared by a route whose C{answer} is this. The method returns an
    L{smartgo.ops.web.streams.IStreamSource}.
    """


class LinesAnswer:
    """
    An answer of JSON lines that are made while they are sent: declared by a route whose C{answer} is this. The method
    returns an async generator of bytes; what can be refused is refused before.
    """


class RestRoute(NamedTuple):
    """The declaration of one route."""

    method: str
    path: str
    """Below C{/api/v1}; C{{name}} stands for a part."""
    scope: str | None
    """What the asker must be allowed; C{None}: anybody may ask."""
    path_type: type[msgspec.Struct] | None
    query_type: type[msgspec.Struct] | None
    body_type: Any
    answer_type: Any
    """A type that msgspec writes; C{None} for 204; L{Raw}, L{StreamAnswer} or L{LinesAnswer}."""
    names: Sequence[type[msgspec.Struct]]
    """What its description names besides: lines, or a job's rows and result."""
    status: int
    refuses: Mapping[int, str]
    """Codes beyond those that any request may get, and when."""
    body_limit: int
    audit: bool
    remote: bool
    """Whether brokers or registries are asked, so that these may fail to answer."""
    media: str
    tag: str
    name: str
    """The method's."""
    about: str

    @property
    def changes(self) -> bool:
        """Tell whether requests of this route change anything."""
        return self.method != "GET"


def route(
    method: str,
    path: str,
    *,
    scope: str | None,
    path_type: type[msgspec.Struct] | None = None,
    query: type[msgspec.Struct] | None = None,
    body: Any = None,
    answer: Any = None,
    names: Sequence[type[msgspec.Struct]] = (),
    status: int = 0,
    refuses: Mapping[int, str] | None = None,
    body_limit: int = BODY_LIMIT,
    audit: bool | None = None,
    remote: bool = True,
    media: str = "application/json",
    tag: str = "",
) -> Callable[[M], M]:
    """
    Declare a method of a resource to be a route.

    The method takes a L{RouteCall} and returns what C{answer} names, or a Deferred or coroutine of it; it raises
    L{Problem<smartgo.ops.problems.Problem>} or any of C{smartgo.errors}.

    @param method: GET, POST, PUT, PATCH or DELETE; GET changes nothing.
    @param path: below C{/api/v1}, such as C{/topics/{name}}.
    @param scope: L{READ}, L{PUBLISH}, L{ADMIN}; C{None} lets anybody in.
    @param path_type: struct of the path's parts, all text.
    @param query: struct of the parameters behind the question mark; unknown ones are refused.
    @param body: type of the JSON body; unknown members are refused if its structs forbid them.
    @param answer: type of the JSON answer; C{None} answers 204; L{Raw}, L{StreamAnswer}, L{LinesAnswer} anything else.
    @param names: structs that the description names in backquotes: lines, or a job's rows and result.
    @param status: of success; by default 200, 201 where C{PUT} or C{POST} ask for it here, 204 without an answer.
    @param refuses: codes that this route may answer beyond the usual ones: code to when.
    @param audit: whether the audit log has it; by default whatever is no GET.
    @param remote: whether it asks brokers or registries: adds 502 and 504.
    @param tag: group in the document; by default the first part of the path.
    """

    if method == "GET" and (body is not None or audit):
        raise ValueError(f"GET {path}: GET takes nothing and changes nothing (reliability X11)")

    def mark(function: M) -> M:
        declared = RestRoute(
            method,
            path,
            scope,
            path_type,
            query,
            body,
            answer,
            names,
            status or (204 if answer is None else 200),
            dict(refuses or {}),
            body_limit,
            method != "GET" if audit is None else audit,
            remote,
            media,
            tag or path.split("/")[1],
            function.__name__,
            function.__doc__ or "",
        )
        setattr(function, _MARK, declared)
        return function

    return mark


def routes_of(resource: object) -> Iterator[tuple[RestRoute, Callable[[RouteCall[Any, Any, Any]], Any]]]:
    """Yield the routes that a resource declares, each with its bound method, in the order of the class."""
    names: dict[str, None] = {}
    for kind in type(resource).__mro__:
        for name in vars(kind):
            names.setdefault(name)
    for name in names:
        function = getattr(type(resource), name, None)
        declared = getattr(function, _MARK, None)
        if declared is not None:
            yield declared, getattr(resource, name)


Resources = Sequence[object]
"""Objects whose methods are declared by L{route}."""
