"""
Reading many sockets at once: one descriptor of the reactor stands for all links that only wait for requests.

The reactor's part for each readable socket costs more than reading it. Where a link is plain and its session says so,
the hub reads it in the reactor's place. It gives the link back as soon as there is anything but reading to be done: an
end, an error, a pause, or too much that is unsent. The compiled hub passes whole frames to runs of requests without
making an object of any, and writes all answers at the end of its turn; what no run takes goes to the link as bytes.

Where frames come in quick succession the compiled hub does not return to the reactor after each read: it waits for the
next one itself, for two milliseconds in all, as long as the reactor has nothing else to do. The runs then end once,
behind the answers to all of them. Nobody can ask for what was stored before that: they end before anything else is done
in Python. They end without a wait where somebody waits for what is stored.

Where answers wait for a flush or a slave, the compiled hub keeps them: one object for all that a link gets of one turn,
and one question to the source for all links. When the source says so they leave, those of a link in one write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from twisted.internet.interfaces import IReactorTime

from smartgo.core import choose
from smartgo.env.interfaces import IPoller
from smartgo.net.turns import TurnScheduler

READ_SIZE: Final = 64 * 1024
"""Bytes read from one socket before it is another one's turn."""
SOCKETS_A_TURN: Final = 128
STAY: Final = 0.002
"""Seconds for which a hub may wait for more before it returns to the reactor."""


class RunSource(Protocol):
    """A processor of runs of requests, from raw frames to answers; see L{smartgo.broker.sendrun}, C{pullrun}."""

    def ready_run(self) -> Any:
        """Return what takes frames now; C{None}: nothing does."""

    def awaited(self) -> bool:
        """Tell whether anybody waits for what runs store, who is told of it when they end."""

    def run_ended(self) -> None:
        """End the run of what was taken, before anybody may ask for it."""

    def when_durable(self, end: int, tell: Callable[[Callable[[bytes], bytes] | None], None]) -> None:
        """
        Call C{tell} once, now or later, when answers may leave that wait for a flush or a slave.

        @param end: they are about what was taken up to this position.
        @param tell: takes what makes other answers of them, where less was reached than they say; C{None}: nothing.
        """

    def given_up(self, answers: bytes) -> bytes:
        """Return what is said in place of such answers where the server stops before they may leave."""


class KeptAnswers(Protocol):
    """
    The answers to some requests of one link that wait, as its session sees them.

    @ivar count: of how many requests.
    @ivar size: about how many bytes are kept for them.
    @ivar held: false: the peer does not want them late.
    """

    @property
    def count(self) -> int:
        """See above."""

    @property
    def size(self) -> int:
        """See above."""

    @property
    def held(self) -> bool:
        """See above."""

    def forget(self) -> None:
        """Keep nothing: nobody wants them any more."""

    def cancel(self) -> None:
        """Do nothing: they are not held."""

    def give_up(self) -> None:
        """Answer in the source's place, by L{RunSource.given_up}; what it says later is dropped."""


class HubLink(Protocol):
    """
    A link as the hub sees it.

    @ivar host: the remote address as a record stores it.
    @ivar out: bytes that leave with the next write, in order.
    """

    host: bytes
    out: list[bytes | memoryview]

    @property
    def unsent(self) -> int:
        """The number of bytes waiting to be sent."""

    @property
    def missing(self) -> int:
        """The number of bytes that an unfinished unit lacks: 0 between two units, -1 while that is not known."""

    def dataReceived(self, data: bytes) -> None:
        """Take bytes that were read."""

    @property
    def spare(self) -> int:
        """The number of requests whose answers may wait besides those that do (L12)."""

    def took(self, frames: int) -> None:
        """Count frames that were read, and taken in a run."""

    def begun(self, kept: KeptAnswers) -> None:
        """Note answers that wait; where these are too many, leave the hub until there are fewer."""

    def done(self, kept: KeptAnswers) -> bool:
        """Note that they may leave; false where nobody wants them any more."""

    def put(self, data: bytes) -> int:
        """Send bytes at the end of this reactor turn."""

    def wrote(self, data: bytes, sent: int) -> None:
        """Take over bytes of which the socket took only C{sent}."""

    def flush(self) -> None:
        """Write what was put."""

    def give_back(self) -> None:
        """Leave the hub: the transport finds out what there is to read."""

    def broke(self) -> None:
        """End the link: an exception that is being handled has come out of its reading."""


class SharedTimers(Protocol):
    """The shared timers of a process's links, L{Sweeper<smartgo.net.sweeper.Sweeper>}, as the hub uses them."""

    clock: IReactorTime
    overdue: float
    turns: TurnScheduler

    def stood_still(self, now: float) -> None:
        """Report a standstill of the process."""

    def note_runs(self, began: float, frames: int) -> None:
        """Count runs that held the reactor up for long."""


class Lane:
    """One link in the hub, with the socket that is read for it."""

    __slots__ = ("fd", "link", "receive")

    def __init__(self, link: HubLink, fd: int, receive: Callable[[int], bytes]) -> None:
        self.link = link
        self.fd = fd
        self.receive = receive


class PureHub:
    """The hub in Python: spares the reactor's part, and nothing else."""

    def __init__(
        self, poller: Callable[[Callable[[], None]], IPoller | None], timers: SharedTimers, stay: float = STAY
    ) -> None:
        """
        @param poller: see L{INetwork.poller<smartgo.env.interfaces.INetwork.poller>}.
        @param timers: of the process; for the compiled hub, which passes no read on to a link.
        @param stay: seconds for which the compiled hub may wait for more before it returns to the reactor.
        """
        self._make_poller = poller
        self._poller: IPoller | None = None
        self._lanes: dict[int, Lane] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def attach(self, link: HubLink, handle: Any, sources: tuple[RunSource, ...]) -> Lane | None:
        """
        Read a link from now on, which its transport must not do any more.

        @param handle: its socket.
        @param sources: where its frames may be taken in runs; each is asked in turn.
        @return: C{None} where there can be no hub, or no room in it; the transport has to read.
        """
        try:
            if self._poller is None:
                self._poller = self._make_poller(self._ready)
                if self._poller is None:
                    return None  # the handle may well be no socket
            lane = Lane(link, handle.fileno(), handle.recv)
            self._poller.add(lane.fd)
        except OSError:
            self._leave_if_empty()
            return None
        self._lanes[lane.fd] = lane
        return lane

    def detach(self, lane: Lane) -> None:
        """Read a link no more."""
        del self._lanes[lane.fd]
        if self._poller is not None:
            self._poller.remove(lane.fd)
            self._leave_if_empty()

    def _leave_if_empty(self) -> None:
        """Free the descriptor where there is nobody to be read."""
        if self._poller is not None and not self._lanes:
            poller, self._poller = self._poller, None
            poller.close()

    def _ready(self) -> None:
        """Read every link that can be read."""
        if self._poller is None:
            return
        for fd in self._poller.readable(SOCKETS_A_TURN):
            lane = self._lanes.get(fd)
            if lane is not None:
                self._read(lane)

    def _read(self, lane: Lane) -> None:
        try:
            data = lane.receive(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            lane.link.dataReceived(data)
        else:
            lane.link.give_back()


if TYPE_CHECKING:
    Hub = PureHub
else:
    Hub = choose("Hub", PureHub)
