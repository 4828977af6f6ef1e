"""A client of the REST API, for what only one process knows: its setting changes and its alerts."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar
from urllib.parse import urlencode, urlsplit

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from smartgo.cli.support.fixedprotocol import FixedProtocolFactory
from smartgo.cli.support.localtoken import find_token
from smartgo.cli.support.running import FAILED, FORBIDDEN, MISSING, TRY_AGAIN, USAGE, CommandError
from smartgo.cli.support.session import do
from smartgo.config.settings import OPS_PORT
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError, SmartgoError
from smartgo.net.tls import ClientTLS, readable
from smartgo.schema.address import is_loopback_host

URL_VARIABLE: Final = "SMARTGO_API"
TOKEN_VARIABLE: Final = "SMARTGO_TOKEN"  # noqa: S105  the name of a variable
TIMEOUT: Final = 30.0
LIMIT: Final = 16 * 1024 * 1024
"""Bytes of an answer."""

_USUAL: Final = f"http://127.0.0.1:{OPS_PORT}"
_BESIDE: Final = 2  # from a broker's port to that of the API in its process
_STATUSES: Final[Mapping[int, int]] = {
    400: USAGE, 401: FORBIDDEN, 403: FORBIDDEN, 404: MISSING, 429: TRY_AGAIN, 502: TRY_AGAIN, 503: TRY_AGAIN,
    504: TRY_AGAIN,
}  # fmt: skip
"""Exit status by HTTP status; L{FAILED} for others."""

_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*(?:\r\n|$)", re.IGNORECASE)
_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,8}[ \t]*")

T = TypeVar("T")


class _HttpExchange(Protocol):
    """One HTTP request and its response; the server closes the connection afterwards."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = bytearray()
        self._aborted = False
        self.answered: Deferred[bytes] = Deferred()

    def connectionMade(self) -> None:
        """Send the request."""
        transport: Any = self.transport
        transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        """Collect the response."""
        self._received += data
        if len(self._received) > LIMIT:
            self.abort()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Fire C{answered} with the response, or fail it."""
        if self.answered.called:
            return
        if self._received and not self._aborted:
            self.answered.callback(bytes(self._received))
        else:
            self.answered.errback(readable(reason))

    def abort(self) -> None:
        """Close the connection without waiting for the response."""
        self._aborted = True
        transport: Any = self.transport
        transport.abortConnection()


class RestClient:
    """A client of one process's REST API."""

    def __init__(
        self, env: IEnvironment, url: str, token: str | None, tls: ClientTLS | None, token_path: str = ""
    ) -> None:
        """
        @param url: such as C{http://127.0.0.1:10913}; C{self.url} has it too.
        @param token_path: the file that the token was found in although none was named.
        @raise SettingError: the URL is not valid.
        """
        parts = urlsplit(url)
        try:
            self._port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except (KeyError, ValueError):
            raise SettingError(f"{url}: write http://HOST:PORT, or https://HOST:PORT") from None
        if not parts.hostname:
            raise SettingError(f"{url}: write http://HOST:PORT, or https://HOST:PORT")
        self._env = env
        self.url = url
        self._token_path = token_path
        self._host = parts.hostname
        self._netloc = parts.netloc.rpartition("@")[2]
        self._token = token
        self._tls = (tls or ClientTLS(env)) if parts.scheme == "https" else None

    async def get(self, path: str, **query: Any) -> Any:
        """Send a GET request; return the decoded answer. @raise CommandError: no answer, or an error status."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return await self._ask("GET", f"{path}?{urlencode(given)}" if given else path, None)

    async def order(self, method: str, path: str, body: Any = None) -> Any:
        """Send a changing request; return the decoded answer. @raise CommandError: as L{get}."""
        return await self._ask(method, path, body)

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {"Host": self._netloc, "Connection": "close", "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        lines = [f"{method} /api/v1{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        answer = await self._exchange("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        head, _, found = answer.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise self._strange()
        status = int(words[1])
        if _CHUNKED.search(head) is not None:
            found = self._joined(found)
        if status >= 400:
            reason, code = _problem(found, status)
            raise CommandError(reason + self._hint(status), _STATUSES.get(status, FAILED), code)
        try:
            return msgspec.json.decode(found) if found else None
        except msgspec.DecodeError:
            raise self._strange() from None

    def _hint(self, status: int) -> str:
        """Return what to do about an answer, as the end of a sentence."""
        if status != 401:
            return ""
        if self._token_path:
            return f"; it is from {self._token_path}, which an earlier smartgo dev left: remove that file"
        return "" if self._token else "; give a token with SMARTGO_TOKEN or --token-file"

    def _joined(self, content: bytes) -> bytes:
        """Join a chunked body (RFC 9112, 7.1), which a proxy may send."""
        chunks: list[bytes] = []
        at = 0
        while (end := content.find(b"\r\n", at)) >= 0 and _SIZE.fullmatch(size := content[at:end].partition(b";")[0]):
            at = end + 2 + int(size, 16)
            if at == end + 2:
                return b"".join(chunks)
            chunks.append(content[end + 2 : at])
            at += 2
        raise self._strange()

    def _strange(self) -> CommandError:
        return CommandError(f"{self.url}: this is not smartgo's REST API", TRY_AGAIN)

    async def _exchange(self, request: bytes) -> bytes:
        exchange = _HttpExchange(request)
        made: Any = exchange
        if self._tls is not None:
            made = TLSMemoryBIOProtocol(self._tls.factory(self._host), exchange)
        timer: IDelayedCall | None = None
        try:
            await self._env.network.connect(self._host, self._port, FixedProtocolFactory(made), TIMEOUT)
            timer = self._env.clock.callLater(TIMEOUT, exchange.abort)
            return await exchange.answered
        except (ConnectError, ConnectionClosed, OSError, SmartgoError) as error:
            late = timer is not None and not timer.active()
            reason = f"no answer within {TIMEOUT:.0f} s" if late else str(error).rstrip(".")
            raise CommandError(f"{self.url}: {reason}; use --api to give the URL of the REST API", TRY_AGAIN) from None
        finally:
            if timer is not None and timer.active():
                timer.cancel()


def _problem(content: bytes, status: int) -> tuple[str, str]:
    """Return the detail and the code of an error answer; the code is empty where it has none."""
    try:
        problem: Any = msgspec.json.decode(content)
        return str(problem["detail"]), str(problem.get("code", ""))
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"request refused with HTTP status {status}", ""


class RestOptions:
    """The REST API options of a command."""

    def __init__(self, url: str | None, token_file: str | None, ca: str | None) -> None:
        self.url = url
        self._token_file = token_file
        self._ca = ca

    def api(self, env: IEnvironment) -> RestClient:
        """Return the client. @raise SettingError: a file cannot be read, or the URL is not valid."""
        return self._client(env, self.url or env.host.variable(URL_VARIABLE) or _USUAL, self._token(env))

    def beside(self, env: IEnvironment, brokers: Iterable[str]) -> list[RestClient]:
        """
        Return clients of the APIs that brokers of this machine serve where nothing else is set; none if one was named.

        Nobody named these addresses, so they get no token but that which smartgo dev left for them.

        @param brokers: C{host:port} each.
        @raise SettingError: a file cannot be read.
        """
        if self.url or env.host.variable(URL_VARIABLE):
            return []
        places = [address.rpartition(":") for address in brokers]
        ports = sorted({int(port) + _BESIDE for host, _, port in places if is_loopback_host(host)})
        return [self._client(env, f"http://127.0.0.1:{port}", None) for port in ports if port != OPS_PORT]

    def _client(self, env: IEnvironment, url: str, token: str | None) -> RestClient:
        tls = None if self._ca is None else ClientTLS(env, self._ca)
        local = find_token(env, url) if token is None else None
        return RestClient(env, url, token, tls) if local is None else RestClient(env, url, local[0], tls, local[1])

    def _token(self, env: IEnvironment) -> str | None:
        if self._token_file is None:
            found: str | None = env.host.variable(TOKEN_VARIABLE)
            return found or None
        try:
            data: bytes = env.files.read(self._token_file)
        except OSError as error:
            raise SettingError(f"{self._token_file}: {error.strerror or error}") from None
        return data.decode("latin-1").strip()

    def do(self, work: Callable[[RestClient], Coroutine[Deferred[Any], Any, None]]) -> None:
        """Run C{work(api)} in the reactor; see L{do<smartgo.cli.support.session.do>}."""

        async def inside(env: IEnvironment) -> None:
            await work(self.api(env))

        do(inside)


def api_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the REST API options to a command; it gets a L{RestOptions} as its first argument."""

    @click.option("--api", metavar="URL", help=f"URL of the REST API.  [env: {URL_VARIABLE}; default: {_USUAL}]")
    @click.option(
        "--token-file",
        metavar="FILE",
        help=f"File with the API token.  [env: {TOKEN_VARIABLE}, the token itself; default: that of smartgo dev]",
    )
    @click.option(
        "--api-ca", metavar="FILE", help="CA certificate (PEM) of the REST API to trust instead of the system's."
    )
    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> T:
        rest = RestOptions(kwargs.pop("api"), kwargs.pop("token_file"), kwargs.pop("api_ca"))
        return function(rest, *args, **kwargs)

    return command
