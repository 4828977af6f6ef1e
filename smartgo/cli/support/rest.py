"""A client of the REST API, for what only one process knows: its setting changes and its alerts."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import click
import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.protocol import Protocol
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from smartgo.auth.keyfile import load_key_file
from smartgo.cli.support.contextfile import KEY_FILE_VARIABLE
from smartgo.cli.support.fixedprotocol import FixedProtocolFactory
from smartgo.cli.support.localtoken import find_token
from smartgo.cli.support.running import FAILED, FORBIDDEN, MISSING, TRY_AGAIN, USAGE, CommandError
from smartgo.cli.support.session import access_key_option, do
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


class ShownIdentity(NamedTuple):
    """
    The identity that a request shows the API.

    @ivar authorization: the header; empty for none.
    @ivar hint: what to do where it is not valid, as the end of a sentence.
    @ivar is_secret: it has the secret of an account, which is shown to nobody on the way: over TLS, or on this machine.
    """

    authorization: str = ""
    hint: str = ""
    is_secret: bool = False


def _bearer(token: str, hint: str = "") -> ShownIdentity:
    return ShownIdentity(f"Bearer {token}", hint)


def _account(env: IEnvironment, path: str) -> ShownIdentity:
    """Return the account of a file. @raise SettingError: it cannot be read."""
    key = load_key_file(env.files, path)
    text = base64.b64encode(key.access_key.encode() + b":" + key.secret).decode()
    return ShownIdentity(f"Basic {text}", f"; look at {path}", is_secret=True)


class RestClient:
    """A client of one process's REST API."""

    def __init__(
        self, env: IEnvironment, url: str, shown: ShownIdentity | None = None, tls: ClientTLS | None = None
    ) -> None:
        """
        @param url: such as C{http://127.0.0.1:10913}; C{self.url} has it too.
        @param shown: what shows the API who asks; C{None}: nothing does.
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
        self._host = parts.hostname
        self._netloc = parts.netloc.rpartition("@")[2]
        self._shown = shown or ShownIdentity()
        if self._shown.is_secret and parts.scheme != "https" and not is_loopback_host(parts.hostname):
            self._shown = ShownIdentity(hint=f"; the account is not shown to {url}: use https")
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
        if self._shown.authorization:
            headers["Authorization"] = self._shown.authorization
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
        if self._shown.hint or self._shown.authorization:
            return self._shown.hint
        return (
            "; give a token with SMARTGO_TOKEN or --token-file,"
            f" or, where access control is on, an account with {KEY_FILE_VARIABLE} or --access-key-file"
        )

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

    def __init__(self, url: str | None, token_file: str | None, ca: str | None, key_file: str | None = None) -> None:
        """@param key_file: the file with the key of an account; C{None}: that of the environment, if any."""
        self.url = url
        self._token_file = token_file
        self._ca = ca
        self._key_file = key_file

    def api(self, env: IEnvironment) -> RestClient:
        """Return the client. @raise SettingError: a file cannot be read, or the URL is not valid."""
        url = self.url or env.host.variable(URL_VARIABLE) or _USUAL
        return self._client(env, url, self._given(env) or _local(env, url) or self._usual(env))

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
        urls = [f"http://127.0.0.1:{port}" for port in ports if port != OPS_PORT]
        return [self._client(env, url, _local(env, url)) for url in urls]

    def _client(self, env: IEnvironment, url: str, shown: ShownIdentity | None) -> RestClient:
        return RestClient(env, url, shown, None if self._ca is None else ClientTLS(env, self._ca))

    def _given(self, env: IEnvironment) -> ShownIdentity | None:
        """Return what an option names, else the token of the environment; C{None}: nothing."""
        if self._token_file is not None:
            try:
                data: bytes = env.files.read(self._token_file)
            except OSError as error:
                raise SettingError(f"{self._token_file}: {error.strerror or error}") from None
            return _bearer(data.decode("latin-1").strip())
        if self._key_file:
            return _account(env, self._key_file)
        token: str | None = env.host.variable(TOKEN_VARIABLE)
        return _bearer(token) if token else None

    def _usual(self, env: IEnvironment) -> ShownIdentity | None:
        """Return the account that the environment names for all commands; C{None}: none."""
        path: str | None = env.host.variable(KEY_FILE_VARIABLE)
        return _account(env, path) if path else None

    def do(self, work: Callable[[RestClient], Coroutine[Deferred[Any], Any, None]]) -> None:
        """Run C{work(api)} in the reactor; see L{do<smartgo.cli.support.session.do>}."""

        async def inside(env: IEnvironment) -> None:
            await work(self.api(env))

        do(inside)


def _local(env: IEnvironment, url: str) -> ShownIdentity | None:
    """Return the token that C{smartgo dev} left for an API of this machine; C{None}: there is none."""
    found = find_token(env, url)
    if found is None:
        return None
    return _bearer(found[0], f"; it is from {found[1]}, which an earlier smartgo dev left: remove that file")


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
    @access_key_option
    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> T:
        kwargs.pop("access_key_file", None)  # the options of connections take it first, where there are any
        key_file = click.get_current_context().params["access_key_file"]
        rest = RestOptions(kwargs.pop("api"), kwargs.pop("token_file"), kwargs.pop("api_ca"), key_file)
        return function(rest, *args, **kwargs)

    return command
