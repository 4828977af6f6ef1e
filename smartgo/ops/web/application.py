"""
The application: from the resources' declarations to a Klein app whose every answer is checked, bounded and explained.

The steps of a request: limits of the connection (L{smartgo.ops.web.site}), host and origin, routing by Klein,
authentication and scope, reading path, query and body by their structs, the resource's method within its time limit,
the answer. Every change is written to the audit log, whatever its outcome.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

import msgspec
from klein import Klein
from klein.resource import KleinResource
from OpenSSL.crypto import X509
from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from smartgo.env.interfaces import IEnvironment
from smartgo.net.certificatenames import certificate_names
from smartgo.ops.problems import Problem, problem_of
from smartgo.ops.security.audit import AuditEntry, AuditLog, shown
from smartgo.ops.security.principals import ADMIN, LOCAL_READER, NOBODY, Principal
from smartgo.ops.security.requestguard import RequestCredentials, RequestGuard
from smartgo.ops.security.sessions import COOKIE
from smartgo.ops.web.answers import write_answer
from smartgo.ops.web.httpsession import REQUEST_SECONDS
from smartgo.ops.web.openapi import PREFIX, document
from smartgo.ops.web.openapipage import docs_pages
from smartgo.ops.web.partial import fill
from smartgo.ops.web.request import OpsRequest
from smartgo.ops.web.requestvalues import QuerySchema, read_body, read_path
from smartgo.ops.web.routes import BODY_LIMIT, LinesAnswer, Raw, RestRoute, RouteCall, StreamAnswer, routes_of
from smartgo.ops.web.streams import Streams

_ALIASES: Final = {path: PREFIX.encode() + path for path in (b"/metrics", b"/health", b"/ready")}
"""Paths where others look for what stands elsewhere."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class RestApplication:
    """
    Serves the routes of resources.

    @ivar routes: their declarations.
    @ivar klein: the app.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        guard: RequestGuard,
        audit: AuditLog,
        streams: Streams,
        resources: Iterable[object],
        pages: Mapping[str, Raw] | None = None,
        seconds: float = REQUEST_SECONDS,
    ) -> None:
        """
        @param resources: objects whose methods L{smartgo.ops.web.routes.route} declares.
        @param pages: documents outside the API, by path; anybody may GET them.
        @param seconds: that a resource has for its answer.
        """
        self._env = env
        self._guard = guard
        self._audit = audit
        self._streams = streams
        self._seconds = seconds
        self._pages = dict(pages or {})
        self.klein = Klein()
        # A redirect would be an answer that no declaration names.
        self.klein.url_map.merge_slashes = False
        self.klein.url_map.strict_slashes = True
        self.klein.handle_errors(HTTPException)(cast("Any", self._not_routed))
        declared = [pair for resource in resources for pair in routes_of(resource)]
        self.routes: Sequence[RestRoute] = [one for one, _ in declared]
        self._queries = {(one.method, one.path): QuerySchema(one.query_type) for one in self.routes}
        for number, (one, method) in enumerate(declared):
            self._add(number, one, method)
        self._add_pages()
        self._resource: KleinResource = self.klein.resource()
        limits = {one.path: one.body_limit for one in self.routes if one.body_limit != BODY_LIMIT}
        self._long_bodies = {PREFIX + path: limit for path, limit in limits.items()}

    # -- what the site needs -----------------------------------------------------------------------------------

    def body_limit(self, method: bytes, url: bytes) -> int:
        """Return the maximum size of a request's body in bytes."""
        path = url.partition(b"?")[0].decode("latin-1")
        for pattern, limit in self._long_bodies.items():
            if _matches(pattern, path):
                return limit
        return BODY_LIMIT

    def render(self, request: OpsRequest) -> None:
        """Check the target of a request and route it."""
        try:
            path = _ALIASES.get(request.path, request.path).decode("ascii")
        except UnicodeDecodeError:
            request.answer_problem(Problem(400, "the URL is not ASCII"))
            return
        request.postpath = [unquote_to_bytes(part) for part in path.removeprefix("/").split("/")]
        # Routing takes these for the path with one plain slash; the rules of a proxy in front need not.
        if path.startswith("//") or any(b"/" in part for part in request.postpath):
            request.answer_problem(_nowhere())
            return
        try:
            for part in request.postpath:
                part.decode()
            self._guard.check_place(_credentials_of(request))
        except UnicodeDecodeError:
            request.answer_problem(Problem(400, "the URL is not UTF-8"))
            return
        except Problem as problem:
            request.answer_problem(problem)
            return
        self._resource.render(request)

    # -- routing -----------------------------------------------------------------------------------------------

    def _add(self, number: int, one: RestRoute, method: Callable[[RouteCall[Any, Any, Any]], Any]) -> None:
        def handle(request: OpsRequest, **path: str) -> Deferred[None]:
            request.named = f"request {one.method} {one.path}"
            serving = Deferred.fromCoroutine(request.timed(self._serve(one, method, request, path)))
            return _to_its_end(serving) if one.changes else serving

        handle.__name__ = f"route_{number}"
        pattern = PREFIX + one.path.replace("{", "<").replace("}", ">")
        self.klein.route(pattern, methods=[one.method])(handle)

    def _add_pages(self) -> None:
        described = document(self.routes)
        self._pages["/openapi.json"] = Raw(_encode(described), "application/json")
        self._pages.update(docs_pages(described))
        for number, (path, page) in enumerate(self._pages.items()):

            def show(request: OpsRequest, page: Raw = page) -> None:
                write_answer(request, 200, page.content, page.content_type, page.headers)

            show.__name__ = f"page_{number}"
            self.klein.route(path, methods=["GET"])(show)

    def _not_routed(self, request: OpsRequest, failure: Failure) -> bytes:
        error = failure.value
        if isinstance(error, MethodNotAllowed):
            allowed = ", ".join(sorted(error.valid_methods or ()))
            return request.begin_problem(Problem(405, "this path does not support this method", "", {"Allow": allowed}))
        return request.begin_problem(_nowhere())

    # -- one request -------------------------------------------------------------------------------------------

    async def _serve(
        self,
        one: RestRoute,
        method: Callable[[RouteCall[Any, Any, Any]], Any],
        request: OpsRequest,
        path: dict[str, str],
    ) -> None:
        credentials = _credentials_of(request)
        principal = NOBODY
        call: RouteCall[Any, Any, Any] | None = None
        problem: Problem | None = None
        try:
            principal = self._guard.principal(credentials)
            self._guard.check_scope(principal, one.scope)
            call = self._call(one, request, path, principal, credentials)
            given = (call.path, call.query, call.body)
            self._guard.check_account(principal, one.scope, (one.method, one.path), given, call.address)
            call.sees = self._guard.sight(principal, (one.method, one.path), call.address) or call.sees
            result = await maybeDeferred(_started, method, call, request).addTimeout(self._seconds, self._env.clock)
            fill(result, call.missing)
            self._succeed(one, request, call, result)
            if one.answer_type in (StreamAnswer, LinesAnswer) and not request.finished:
                await request.notifyFinish().addBoth(lambda _: None)
        except CancelledError:
            problem = Problem(408, "the client closed the connection")
        except defer.TimeoutError:
            problem = Problem(504, f"no answer within {self._seconds:g} s")
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                self._log.failure(
                    "request {id}: {method} {path} failed", id=request.id, method=one.method, path=one.path
                )
                problem = Problem(500, "an internal error; the log has the details under the request's id")
        if one.audit:
            self._note(one, request, path, principal, credentials, call, problem)
        if problem is not None:
            request.answer_problem(problem)

    def _call(
        self,
        one: RestRoute,
        request: OpsRequest,
        path: dict[str, str],
        principal: Principal,
        credentials: RequestCredentials,
    ) -> RouteCall[Any, Any, Any]:
        query = self._queries[one.method, one.path].read(request)
        body = read_body(one.body_type, request)
        names = read_path(one.path_type, path)
        address = self._guard.address(credentials)
        call: RouteCall[Any, Any, Any] = RouteCall(
            names, query, body, principal, address, request.id, credentials.secure
        )
        request.notifyFinish().addBoth(lambda _: setattr(call, "gone", True))
        return call

    def _succeed(self, one: RestRoute, request: OpsRequest, call: RouteCall[Any, Any, Any], result: Any) -> None:
        if request.finished or request.is_disconnected:
            return
        for name, value in call.headers.items():
            request.setHeader(name.encode(), value.encode())
        for cookie in call.cookies:
            request.responseHeaders.addRawHeader(b"Set-Cookie", cookie)
        request.setHeader(b"Cache-Control", b"no-store")
        if one.answer_type in (StreamAnswer, LinesAnswer) and request.method == b"HEAD":
            request.finish()
        elif one.answer_type is StreamAnswer:
            self._streams.begin(request, result, lambda: self._guard.still(call.principal), call.owner)
        elif one.answer_type is LinesAnswer:
            self._streams.begin_lines(request, result, call.owner)
        elif one.answer_type is None:
            request.setResponseCode(one.status)
            request.finish()
        elif isinstance(result, Raw):
            write_answer(request, one.status, result.content, result.content_type, result.headers)
        else:
            write_answer(request, one.status, _encode(result), one.media, {})

    # -- the audit log -----------------------------------------------------------------------------------------

    def _note(
        self,
        one: RestRoute,
        request: OpsRequest,
        path: dict[str, str],
        principal: Principal,
        credentials: RequestCredentials,
        call: RouteCall[Any, Any, Any] | None,
        problem: Problem | None,
    ) -> None:
        detail: dict[str, Any] = {}
        if call is not None:
            if call.query is not None:
                detail["query"] = shown(call.query)
            if call.body is not None:
                detail["body"] = shown(call.body)
            detail.update(shown(call.noted))
        entry = AuditEntry(
            self._env.clock.wall_ms(),
            request.id,
            principal.name,
            self._guard.address(credentials),
            f"{one.method} {one.path}",
            {name: str(shown(value)) for name, value in path.items()},
            detail,
            one.status if problem is None else problem.status,
            "" if problem is None else problem.code,
        )
        if principal in (NOBODY, LOCAL_READER) or (problem is not None and not principal.may(ADMIN)):
            self._audit.add_common(entry)
        else:
            self._audit.add(entry)


def _nowhere() -> Problem:
    return Problem(404, "there is nothing at this path", "no-such-path")


def _to_its_end(serving: Deferred[None]) -> Deferred[None]:
    """Return what fires with this one and can be cancelled without it: a change whose client left is still done."""
    waiter: Deferred[None] = Deferred()
    serving.addBoth(lambda result: None if waiter.called else waiter.callback(result))
    return waiter


def _started(
    method: Callable[[RouteCall[Any, Any, Any]], Any], call: RouteCall[Any, Any, Any], request: OpsRequest
) -> Any:
    result = method(call)
    return Deferred.fromCoroutine(request.timed(result)) if inspect.iscoroutine(result) else result


def _credentials_of(request: OpsRequest) -> RequestCredentials:
    host: Any = request.getHost()
    cookie = request.getCookie(COOKIE.encode())
    certificate = _certificate_of(request)
    return RequestCredentials(
        request.method not in (b"GET", b"HEAD"),
        request.header_text,
        None if cookie is None else cookie.decode("latin-1"),
        request.peer_address(),
        (getattr(host, "host", ""), getattr(host, "port", 0)),
        bool(request.isSecure()),
        None if certificate is None else str(certificate.get_subject().commonName or ""),
        () if certificate is None else certificate_names(certificate),
        request.clientproto == b"HTTP/1.0",
        len(request.requestHeaders.getRawHeaders(b"Host", [])),
    )


def _certificate_of(request: OpsRequest) -> X509 | None:
    """Return the client certificate that TLS has verified; C{None}: there is none."""
    shown_certificate = getattr(request.transport, "getPeerCertificate", None)
    return shown_certificate() if shown_certificate is not None and request.isSecure() else None


def _matches(pattern: str, path: str) -> bool:
    parts, given = pattern.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        one == other or one.startswith("{") for one, other in zip(parts, given, strict=True)
    )
