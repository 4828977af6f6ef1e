"""The HTTP site: a listener whose links speak HTTP, and what all of their requests share (reliability L22)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from msgspec.structs import replace
from twisted.web.server import Request

from smartgo.env.interfaces import IEnvironment
from smartgo.net.admission import EvictingAdmission
from smartgo.net.limits import MIB, NEVER, Limits
from smartgo.net.link import Link
from smartgo.net.listener import Listener
from smartgo.net.memorybudget import Kind
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.ops.web.httpsession import HttpSession
from smartgo.ops.web.request import OpsRequest

_LIMITS: Final = Limits(
    spare_descriptors=32,  # of the reserve that other ports leave: who looks after a broker is let in after its clients
    first_frame=NEVER,  # the deadlines of a request end in an answer: see HttpSession
    partial=NEVER,
    idle=60.0,
    unsent_resume=0,
    unsent_seconds=NEVER,  # a slow client has time while it takes anything
    unsent_close=1024 * MIB,  # an answer is whole when it is written; the memory budget bounds what all clients leave
    stop=2.0,
    linger=30.0,
    unit_kind=Kind.HTTP_BODIES,
)


class HttpLimits(NamedTuple):
    """The limits on connections and requests."""

    connections: int = 512
    per_address: int = 128
    """Of one address, or of one IPv6 network of 64 bits; proxies that are trusted may have all."""
    requests: int = 64
    """That are served at once."""
    proxies: Collection[str] = ()


class HttpSite(Listener):
    """
    Serves HTTP at one address.

    @ivar http_limits: on connections and requests.
    @ivar busy: requests that are being served.
    @ivar receiving: bytes of bodies that are not whole yet.
    @ivar render: what answers a request.
    @ivar body_limit: how many bytes a body may have, by method and URL.
    @ivar secure: whether nothing but HTTPS is spoken.
    """

    def __init__(
        self,
        env: IEnvironment,
        sweeper: Sweeper,
        description: str,
        render: Callable[[OpsRequest], object],
        body_limit: Callable[[bytes, bytes], int],
        tls: ServerTLS | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """
        @param sweeper: timers and memory budget of connections, shared with others of the process.
        @param description: where to listen, such as C{tcp:10913:interface=127.0.0.1}.
        @param body_limit: how many bytes a body may have, by method and URL.
        @param tls: certificate and key: then nothing but HTTPS is spoken.
        """
        self.http_limits = limits = limits or HttpLimits()
        bounds = replace(_LIMITS, connections=limits.connections, per_address=limits.per_address)
        self._evicting = EvictingAdmission(bounds, limits.proxies)
        super().__init__(env, sweeper, bounds, tls, lambda _: self._evicting)
        self.add_port(description, self._session)
        self.render = render
        self.body_limit = body_limit
        self.secure = tls is not None
        self.busy = 0
        self.receiving = 0
        self._serial = 0
        self._clock = env.clock
        self._nonce = env.random.token(4).hex()

    def _session(self, link: Link) -> HttpSession:
        return HttpSession(link, self)

    def next_id(self) -> str:
        """Return the id of one more request."""
        self._serial += 1
        return f"{self._nonce}-{self._serial:x}"

    def wall_seconds(self) -> float:
        """Return the time of the wall clock, for the C{Date} header."""
        return float(self._clock.wall_ms()) / 1000

    def used(self, link: Link) -> None:
        """Note a request of a connection: it is now the last to be closed for others."""
        self._evicting.used(link)

    def log(self, request: Request) -> None:
        """Write no access log; the audit log has the changes."""
