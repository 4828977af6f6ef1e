"""
Requests to several independent registries, any of which may be down, slow, empty or wrong (reliability H7).

One of them is asked, chosen by chance at the start; the next is, where that one fails or knows nothing. So a registry
that has just started, and does not yet know all brokers, does not make topics vanish that another one knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.env.interfaces import IRandom
from smartgo.errors import BadBody, CallFailed, NotConnected, PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command

TIMEOUT: Final = 3.0
"""Seconds for the last registry to answer, or the only one."""
IMPATIENT: Final = 1.0
"""Seconds for one after which there is another to ask: a send is to be done within 3 s."""

T = TypeVar("T")


class Asks(Protocol):
    """The part of L{smartgo.remoting.client.RemotingClient} that requests need."""

    def ask(self, address: str, command: Command, timeout: float = ...) -> Deferred[Command]:
        """Send a request; fires with the response, whatever its code."""


def _whole(answer: Command) -> Command:
    return answer


class NoRegistryReached(NotConnected):
    """None of the registries that a client was given could be connected to."""

    def __init__(self, failure: NotConnected) -> None:
        super().__init__(
            f"no registry can be reached: {str(failure).rstrip('.')};"
            " start one there, or give the client the address of one that runs"
        )


class RegistryCalls:
    """
    Requests to one registry of several.

    @ivar addresses: C{host:port} of each.
    """

    _log = Logger()

    def __init__(self, client: Asks, addresses: Sequence[str], random: IRandom) -> None:
        self.addresses = tuple(addresses)
        self._client = client
        self._at = random.below(len(addresses)) if addresses else 0
        self._failing: set[str] = set()

    async def ask(self, command: Command) -> Command:
        """
        Ask the registry that answered last, or else the others in turn; return the answer, a success.

        @raise PeerRefused: all that answered did so with an error code; the first one's.
        @raise CallFailed: none of them answered.
        """
        return await self.read(command, _whole)

    async def read(self, command: Command, understand: Callable[[Command], T]) -> T:
        """
        Ask as L{ask} does, and return what C{understand} makes of the answer.

        @param understand: raises BadBody for an answer that cannot be read; the next registry is asked then.
        """
        refusal: PeerRefused | None = None
        failure: CallFailed = NotConnected("no registry is configured")
        count = len(self.addresses)
        for step in range(count):
            at = (self._at + step) % count
            address = self.addresses[at]
            try:
                answer = await self._client.ask(address, command, TIMEOUT if step == count - 1 else IMPATIENT)
                if answer.code != ResponseCode.SUCCESS:
                    raise PeerRefused(answer.code, answer.remark or "")
                found = understand(answer)
            except PeerRefused as error:
                self._well(address)
                refusal = refusal or error
            except BadBody as error:
                failure = CallFailed(f"the answer of registry {address} cannot be read: {error}")
                self._ill(address, failure)
            except CallFailed as error:
                failure = error
                self._ill(address, failure)
            else:
                self._well(address)
                self._at = at
                return found
        if refusal is None and isinstance(failure, NotConnected):
            raise NoRegistryReached(failure) from failure
        raise refusal or failure

    def _ill(self, address: str, error: CallFailed) -> None:
        if address not in self._failing and len(self.addresses) > 1:  # of the only one the caller is told
            self._failing.add(address)
            self._log.warn("registry {address} does not answer: {error}", address=address, error=error)

    def _well(self, address: str) -> None:
        if address in self._failing:
            self._failing.discard(address)
            self._log.info("registry {address} answers again", address=address)
