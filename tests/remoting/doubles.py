"""Stand-ins around a connection: a listener that remembers, processors that do as told, peers that speak by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from zope.interface import implementer

from smartgo.net.counts import Counts
from smartgo.net.limits import SERVER, Limits
from smartgo.net.link import Link
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.remoting.connection import Connection, connections
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.remoting.interfaces import Answer, IConnectionListener, IPeer, IRequestHook, IRequestProcessor
from smartgo.schema.command import Command, decode, encode
from tests.fakes import FakeEnvironment

ECHO = 901
LATE = 902
OTHER = 903


@implementer(IConnectionListener)
class Hearing:
    """
    A listener.

    @ivar events: the names of what was heard, in order.
    @ivar heard: the same with the peer and the details.
    """

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    @property
    def events(self) -> list[str]:
        """Names alone."""
        return [one[0] for one in self.heard]

    def active(self, peer: IPeer) -> None:
        """Remember."""
        self.heard.append(("active", peer))

    def connected(self, peer: IPeer) -> None:
        """Remember."""
        self.heard.append(("connected", peer))

    def first_frame(self, peer: IPeer) -> None:
        """Remember."""
        self.heard.append(("first_frame", peer))

    def idle(self, peer: IPeer, seconds: float) -> None:
        """Remember."""
        self.heard.append(("idle", peer, seconds))

    def disconnected(self, peer: IPeer, reason: Any) -> None:
        """Remember."""
        self.heard.append(("disconnected", peer, reason))

    def closed(self, peer: IPeer) -> None:
        """Remember."""
        self.heard.append(("closed", peer))

    def failed(self, peer: IPeer, failure: Any) -> None:
        """Remember."""
        self.heard.append(("failed", peer, failure))


@implementer(IRequestProcessor)
class Doing:
    """
    A processor that does what a function says.

    @ivar seen: the requests, in order.
    @ivar runs: how many requests had been seen at the end of each run.
    @ivar busy: what C{refuses} says.
    """

    def __init__(self, code: int, do: Callable[[IPeer, Command], Any]) -> None:
        self.codes = frozenset([code])
        self._do = do
        self.seen: list[Command] = []
        self.runs: list[int] = []
        self.busy = False

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Do it."""
        self.seen.append(request)
        result: Answer | Deferred[Answer] = self._do(peer, request)
        return result

    def refuses(self) -> bool:
        """As told."""
        return self.busy

    def run_ended(self) -> None:
        """Count."""
        self.runs.append(len(self.seen))


def echo() -> Doing:
    """A processor that sends the body back."""
    return Doing(ECHO, lambda _, request: request.answer(body=request.body))


class Lates:
    """Makes answers that fire when told: C{pending} has their Deferreds, in order."""

    def __init__(self, kind: type[Deferred[Any]] = Deferred, canceller: Any = None) -> None:
        self._kind = kind
        self._canceller = canceller
        self.pending: list[Deferred[Any]] = []
        self.requests: list[Command] = []

    def __call__(self, peer: IPeer, request: Command) -> Deferred[Any]:
        """One more."""
        answer: Deferred[Any] = self._kind(self._canceller)
        self.pending.append(answer)
        self.requests.append(request)
        return answer

    def fire(self, index: int = 0) -> None:
        """Answer one of them with its body."""
        self.pending.pop(index).callback(self.requests[index].answer(body=self.requests.pop(index).body))


class Owning:
    """An owner that counts."""

    def __init__(self) -> None:
        self.left = 0
        self.gone = 0
        self.counts = Counts()

    def leaving(self, link: Link) -> None:
        """Count."""
        self.left += 1

    def ended(self, link: Link) -> None:
        """Count."""
        self.gone += 1


class Wire(StringTransport):
    """
    A transport that remembers each write by itself, and pushes back when told.

    @ivar writes: what was written, a write each.
    @ivar aborted: whether the connection was cut.
    @ivar protocol: who is at this end, where a test says so.
    @ivar full: a write tells the producer to pause.
    """

    def __init__(self, peer: Any = None) -> None:
        super().__init__(
            hostAddress=IPv4Address("TCP", "127.0.0.1", 10911), peerAddress=peer or IPv4Address("TCP", "10.1.2.3", 5000)
        )
        self.writes: list[bytes] = []
        self.full = False
        self.protocol: Any = None

    def write(self, data: bytes) -> None:
        """Remember."""
        self.writes.append(data)
        if self.full and self.producer is not None:
            self.producer.pauseProducing()

    @property
    def aborted(self) -> bool:
        """As said."""
        return bool(self.disconnected)

    @property
    def reading(self) -> bool:
        """Tell whether bytes are wanted."""
        return self.producerState == "producing"

    def drained(self) -> None:
        """All that was written has left."""
        self.producer.resumeProducing()  # type: ignore[union-attr]


class Accepted:
    """An accepted connection on a L{Wire}, and what stands around it."""

    def __init__(
        self,
        processors: Iterable[Any] = (),
        hooks: Iterable[IRequestHook] = (),
        limits: Limits = SERVER,
        tls: ServerTLS | ClientTLS | None = None,
        clock: Clock | None = None,
        sweeper: Sweeper | None = None,
        peer: Any = None,
    ) -> None:
        self.clock = Clock() if clock is None else clock
        self.sweeper = sweeper_of(self.clock) if sweeper is None else sweeper
        self.hearing = Hearing()
        self.owner = Owning()
        self.dispatcher = Dispatcher(processors, hooks)
        sessions = connections(self.sweeper, limits, self.dispatcher, self.hearing)
        self.protocol = Link(sessions, limits, self.sweeper, self.owner, tls)
        self.connection = cast("Connection", self.protocol.session)
        self.counts = self.protocol.counts
        self.wire = Wire(peer)
        self.protocol.makeConnection(self.wire)

    def hear(self, *requests: Command) -> None:
        """Let these arrive in one read."""
        self.protocol.dataReceived(b"".join(map(encode, requests)))

    def turn(self) -> None:
        """Let the reactor's turn end."""
        self.clock.advance(0)

    def turns(self, count: int = 100) -> None:
        """Let many turns end, so that what waits for its turn is done; time stands still."""
        for _ in range(count):
            self.clock.advance(0)

    def answers(self) -> list[Command]:
        """All that was written since the last call."""
        written, self.wire.writes = b"".join(self.wire.writes), []
        return [decode(frame) for frame in LengthFieldDecoder(1 << 24, 4).frames(written)]


def request(code: int = ECHO, opaque: int = 1, body: bytes = b"", one_way: bool = False) -> Command:
    """A request with an opaque of the caller's choice."""
    command = Command.request(code, body=body, one_way=one_way)
    command.opaque = opaque
    return command


def settle(env: FakeEnvironment) -> None:
    """Move bytes and end turns until nothing happens any more; time stands still."""
    for _ in range(1000):
        env.clock.advance(0)
        moved = env.network.pump()
        due = any(call.getTime() <= env.clock.seconds() for call in env.clock.getDelayedCalls())
        if not moved and not due:
            return
    raise AssertionError("it never falls silent")


def pass_seconds(env: FakeEnvironment, seconds: int) -> None:
    """Let whole seconds pass one by one, with all that happens in each."""
    for _ in range(seconds):
        env.clock.advance(1)
        settle(env)


def sweeper_of(clock: Any, poller: Callable[[Callable[[], None]], Any] = lambda ready: None) -> Sweeper:
    """Timers and a memory budget of their own."""
    return Sweeper(clock, MemoryBudget(clock), poller=poller)
