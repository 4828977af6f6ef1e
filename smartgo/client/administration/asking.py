"""Requests of an administrator to registries and brokers, and the merging of several answers into one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from copy import copy
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from twisted.internet.defer import Deferred, DeferredList, fail
from twisted.python.failure import Failure

from smartgo.client.client import Client, succeeded
from smartgo.client.internal.outages import SILENCE
from smartgo.client.internal.route import MASTER
from smartgo.errors import BadBody, BrokerUnknown, CallFailed, CallTimedOut, NotConnected, PeerRefused
from smartgo.schema.bodies import Body, ClusterInfo
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header

TIMEOUT: Final = 5.0  # seconds for an answer

B = TypeVar("B", bound=Body)
P = ParamSpec("P")
T = TypeVar("T")

OnMissing = Callable[[str, CallFailed], None]
"""Called with the name of a broker that a question of several goes on without, and why."""


def deferred(function: Callable[P, Coroutine[Deferred[Any], Any, T]]) -> Callable[P, Deferred[T]]:
    """Let an C{async} function be called like any other: its work begins at once, and a Deferred is returned."""

    @wraps(function)
    def started(*args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        return Deferred.fromCoroutine(function(*args, **kwargs))

    return started


def body_of(kind: type[B], answer: Command) -> B:
    """Return an answer's body. @raise CallFailed: it is no such body."""
    try:
        return kind.decode(answer.body)
    except BadBody as error:
        raise CallFailed(f"an answer cannot be read: {error}") from None


def named(where: str, error: CallFailed, more: str = "") -> CallFailed:
    """Return the same failure with the name of the place where it happened, and what C{more} is to be told."""
    if isinstance(error, PeerRefused):
        return PeerRefused(error.code, f"{where}: {error.remark}{more}")
    if isinstance(error, CallTimedOut):
        return CallTimedOut(f"{where}{more}", error.timeout)
    kind = NotConnected if isinstance(error, NotConnected) else CallFailed
    return kind(f"{where}: {error}{more}")


class Asking:
    """
    Sends requests to registries and brokers.

    A change goes to every broker concerned and to every registry; if one fails, the call fails, after all others were
    asked, too. A query of several brokers is sent to all of them at once.
    """

    def __init__(self, client: Client, on_missing: OnMissing | None = None) -> None:
        """
        @param on_missing: lets questions go on without brokers that do not answer; by default such a question fails.
        """
        self.client = client
        self._on_missing = on_missing
        self._silent: dict[str, CallFailed] | None = None  # by address, with the reasons; None: they are asked again

    def exchange(
        self, address: str, command: Command, seconds: float = TIMEOUT, relayed: bool = False
    ) -> Deferred[Command]:
        """
        Ask one process; fires with its answer, whatever its code is. Every question to brokers goes this way.

        @param relayed: a broker passes it on to a client, and it is the client who may not answer.
        @raise CallFailed: through the Deferred: it did not answer.
        """
        silent = self._silent
        if silent is not None and address in silent:
            return fail(silent[address])
        answer: Deferred[Command] = self.client.remoting.ask(address, command, seconds)
        if silent is not None and not relayed:
            answer.addErrback(self._note_silent, address, self.client.env.clock.seconds())
        return answer

    def _note_silent(self, failure: Failure, address: str, begun: float) -> Failure:
        error, took = failure.value, self.client.env.clock.seconds() - begun
        if self._silent is not None and isinstance(error, CallFailed) and took >= SILENCE:
            self._silent.setdefault(address, error)
        return failure

    def impatient(self) -> Asking:
        """
        Return what asks as this one does, and waits for no broker twice.

        It is for work that asks one question after another: once a question to an address has failed after L{SILENCE}
        or longer, all later ones to that address fail with the same error at once.
        """
        other = copy(self)
        other._silent = {}
        return other

    def noting(self, on_missing: OnMissing) -> Asking:
        """Return what asks as this one does, and goes on without brokers that do not answer."""
        other = copy(self)
        other._on_missing = on_missing
        return other

    # -- registries ------------------------------------------------------------------------------------------

    async def registry(self, code: RequestCode, header: Header | None = None) -> Command:
        """
        Ask one registry; return its answer, a success.

        @raise PeerRefused: it declined.
        @raise CallFailed: none answered.
        """
        return await self.client.routes.ask_registry(Command.request(code, header))

    async def registries(
        self, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """
        Send a request to every registry; return their answers by address, successes all.

        @raise PeerRefused: one declined.
        @raise CallFailed: one did not answer.
        """
        asked = {
            address: self.client.ask(address, Command.request(code, header, body), TIMEOUT)
            for address in self.client.registries
        }
        return await _gathered("registry", asked)

    async def each_registry(self, code: RequestCode, header: Header | None = None) -> dict[str, Command | CallFailed]:
        """Send a request to every registry; return by address its answer, a success, or the error."""
        asked = [self.client.ask(one, Command.request(code, header), TIMEOUT) for one in self.client.registries]
        found: dict[str, Command | CallFailed] = {}
        results: list[tuple[bool, Any]] = await DeferredList(asked, consumeErrors=True)
        for address, (_, result) in zip(self.client.registries, results, strict=True):
            if not isinstance(result, Failure):
                found[address] = result
            elif isinstance(result.value, CallFailed):
                found[address] = named(f"registry {address}", result.value)
            else:
                result.raiseException()
        return found

    # -- who is there ----------------------------------------------------------------------------------------

    async def cluster(self) -> ClusterInfo:
        """Return all brokers that the registry knows."""
        return body_of(ClusterInfo, await self.registry(RequestCode.GET_BROKER_CLUSTER_INFO))

    async def masters(self, brokers: Collection[str] | None = None, cluster: str | None = None) -> dict[str, str]:
        """
        Return the addresses of masters, by broker name, sorted.

        @param brokers: these brokers alone; C{cluster}: the brokers of that cluster alone.
        @raise CallFailed: one that was named is unknown or has no master, or there is none at all.
        """
        found = _addresses(await self.cluster(), brokers, cluster, masters=True)
        if not found:
            raise CallFailed("no broker with a master is registered")
        return found

    async def readable(self, cluster: str | None = None) -> dict[str, str]:
        """Return addresses to ask, by broker name: the master's, or where there is none a slave's. Raises as above."""
        return _addresses(await self.cluster(), None, cluster, masters=False)

    # -- brokers ---------------------------------------------------------------------------------------------

    async def broker(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        relayed: bool = False,
    ) -> Command:
        """
        Ask one broker; return its answer, a success.

        @param relayed: it passes that on to a client.
        @raise PeerRefused: it declined.
        @raise CallFailed: it did not answer.
        """
        return succeeded(await self.exchange(address, Command.request(code, header, body), TIMEOUT, relayed))

    async def order(
        self, brokers: Mapping[str, str], code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> dict[str, Command]:
        """Send a request to every one of some brokers. @raise CallFailed: one did not answer with success."""
        asked = {
            name: self.client.ask(address, Command.request(code, header, body), TIMEOUT)
            for name, address in brokers.items()
        }
        return await _gathered("broker", asked)

    async def question(
        self,
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        none: Collection[int] = (),
        unable: dict[str, str] | None = None,
    ) -> dict[str, Command]:
        """
        Ask some brokers; return their answers by name.

        @param none: response codes by which a broker says that it has nothing to tell: it is left out.
        @param unable: takes the brokers that do not know such a question, which is no failure then.
        @raise CallFailed: one did not answer, and there is no C{on_missing}; or none at all did.
        """
        return await self.answers(_whole, brokers, code, header, none, unable)

    async def bodies(
        self,
        kind: type[B],
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        none: Collection[int] = (),
        unable: dict[str, str] | None = None,
    ) -> dict[str, B]:
        """Ask as L{question}, for bodies; a broker whose answer cannot be read is one that did not answer."""
        return await self.answers(lambda _, answer: body_of(kind, answer), brokers, code, header, none, unable)

    async def answers(
        self,
        read: Callable[[str, Command], T],
        brokers: Mapping[str, str],
        code: RequestCode,
        header: Header | None = None,
        none: Collection[int] = (),
        unable: dict[str, str] | None = None,
    ) -> dict[str, T]:
        """
        Ask as L{question}; a broker whose answer cannot be read is one that did not answer.

        @param read: is given a broker's name and answer; it raises L{CallFailed} where that cannot be read.
        """
        asked = [
            self.exchange(address, Command.request(code, header)).addCallback(succeeded) for address in brokers.values()
        ]
        found = {}
        failure: CallFailed | None = None
        silent = 0
        results: list[tuple[bool, Any]] = await DeferredList(asked, consumeErrors=True)
        for (name, address), (_, result) in zip(brokers.items(), results, strict=True):
            try:
                if isinstance(result, Failure):
                    result.raiseException()
                found[name] = read(name, result)
                continue
            except CallFailed as reason:
                error = reason
            code_of = error.code if isinstance(error, PeerRefused) else None
            if code_of in none:
                silent += 1
                continue
            if unable is not None and code_of == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                unable[name] = address
                silent += 1
                continue
            error = named(f"broker {name}", error)
            failure = failure or error
            if self._on_missing is not None:
                self._on_missing(name, error)
        if failure is not None and (self._on_missing is None or not (found or silent)):
            raise failure
        return found

    def go_on_without(self, missing: Sequence[tuple[str, CallFailed]]) -> None:
        """
        Continue a question without the brokers that did not answer, where this is allowed.

        @raise CallFailed: it may not.
        """
        for name, error in missing:
            if self._on_missing is None:
                raise error
            self._on_missing(name, error)


def _whole(_: str, answer: Command) -> Command:
    return answer


async def _gathered(what: str, asked: Mapping[str, Deferred[Command]]) -> dict[str, Command]:
    """Return what all answered. @raise CallFailed: some did not; the message tells which did."""
    found = {}
    failures: list[tuple[str, CallFailed]] = []
    results: list[tuple[bool, Any]] = await DeferredList(list(asked.values()), consumeErrors=True)
    for name, (_, result) in zip(asked, results, strict=True):
        if not isinstance(result, Failure):
            found[name] = result
        elif isinstance(result.value, CallFailed):
            failures.append((f"{what} {name}", result.value))
        else:
            result.raiseException()
    if not failures:
        return found
    where, first = failures[0]
    raise named(where, first, f" (done at {', '.join(found)})" if found else "")


def _addresses(
    info: ClusterInfo, brokers: Collection[str] | None, cluster: str | None, masters: bool
) -> dict[str, str]:
    table = info.broker_addr_table
    if cluster is not None and cluster not in info.cluster_addr_table:
        known = ", ".join(sorted(info.cluster_addr_table)) or "none"
        raise CallFailed(f"there is no cluster {cluster}; there is: {known}")
    names = set(table) if cluster is None else set(info.cluster_addr_table[cluster]) & set(table)
    found = {}
    for name in sorted(names):
        addresses = table[name].broker_addrs
        if addresses and (MASTER in addresses or not masters):
            found[name] = addresses[min(addresses)]
    for name in brokers or ():
        if name not in found:
            kind = "broker" if name not in table else "master of broker"
            raise BrokerUnknown(f"there is no {kind} {name}; there is: {', '.join(found) or 'none'}")
    return found if brokers is None else {name: found[name] for name in sorted(brokers)}
