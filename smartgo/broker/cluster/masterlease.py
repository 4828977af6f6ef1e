"""
The lease on a master's name: may this broker serve as master, by the registries' answers (reliability H6). Sans I/O.

Our registries keep a name for the master that registered it, until it leaves, its connection has ended for 10 s, or
120 s of silence are over, and refuse everybody else. RocketMQ's never refuse. From their words follows::

    state          what happens                                  follows

    ASKING         all have answered or not, one takes us        SERVING
    ASKING         none answers, at the start                    SERVING: brokers work without registries (H7)
    ASKING         none answers, after a standstill              ASKING: another may have our name unknown to us
    any            a registry refuses us, who are new            STEPPED_DOWN: we leave those that took us
    SERVING        the same, another has us, we are not new      SERVING for 10 to 15 s, then STEPPED_DOWN
    SERVING        the same, and no other has us any more        STEPPED_DOWN
    SERVING        a standstill outlasts what a registry grants  ASKING
    STEPPED_DOWN  no registry refuses us any more               ASKING

New is who has not been taken by every registry that answers. So one who comes to a taken name yields at once, even
where another registry does not know of the first. After a split of the registries two may hold the name, each at its
side: the first whose grace time ends, by chance, yields to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

LEASE: Final = 120.0
"""Seconds for which a registry keeps a name after it heard of its holder."""
GRACE_TIME: Final = 10.0
"""Seconds for which who is master elsewhere goes on although a registry refuses him; half as many more, by chance."""


class LeaseState(Enum):
    """The states of the lease; only C{SERVING} accepts messages."""

    ASKING = "asking the registries whether another broker has the name"
    SERVING = "serving"
    STEPPED_DOWN = "another broker has the name"


class MasterLease:
    """
    The lease of one broker on its name, as far as the registries tell.

    @ivar state: the state.
    """

    def __init__(self, seconds: Callable[[], float], fraction: Callable[[], float]) -> None:
        """
        @param seconds: the monotonic clock.
        @param fraction: a number from 0 to 1, by chance.
        """
        self._seconds = seconds
        self._fraction = fraction
        self.state = LeaseState.SERVING
        self._new = True
        self._since = 0.0  # what registries were asked before says nothing, in seconds of the clock
        self._stood_still = 0.0  # seconds; above 0: what we ask about
        self._taken: dict[str, float] = {}  # registry to when we asked it
        self._refusals: dict[str, tuple[float, str]] = {}  # registry to when it refused last, and why
        self._waiting: set[str] = set()  # registries that have not answered yet
        self._serving_until: float | None = None

    def begin(self, registries: Collection[str]) -> None:
        """Begin: these registries are asked for the first time now."""
        self._ask(registries)

    def _ask(self, registries: Collection[str]) -> None:
        self._waiting = set(registries)
        self._since = self._seconds()
        self._new = True
        self.state = LeaseState.ASKING if registries else LeaseState.SERVING

    def only(self, registries: Collection[str]) -> None:
        """Forget all registries but these."""
        for known in (self._taken, self._refusals):
            for gone in known.keys() - set(registries):
                del known[gone]
        self._waiting.intersection_update(registries)

    @property
    def reason(self) -> str | None:
        """The reason why the broker refuses messages; C{None} while it accepts them."""
        if self.state is LeaseState.SERVING:
            return None
        for registry, (_, why) in self._refusals.items():
            return f"registry {registry} does not let this broker be a master: {why}"
        if self._stood_still:
            return (
                f"this broker stood still for {self._stood_still:.0f} s and takes no messages before a registry has"
                " confirmed that no other broker took its name"
            )
        return "this broker takes no messages before it is registered"

    def may_ask(self, registry: str) -> bool:
        """Tell whether to register with a registry: after stepping down only with those that refuse us."""
        return self.state is not LeaseState.STEPPED_DOWN or registry in self._refusals

    def lapsed(self, seconds: float) -> bool:
        """
        Note that the process stood still; tell whether a registry may have given our name away meanwhile.

        All of them are to be asked then. A registry that had us no more before the standstill, as it is down, does not
        matter: without it we went on. Where one refuses us the grace time is over.
        """
        now = self._seconds()
        given_up = any(now - seconds <= asked + LEASE < now for asked in self._taken.values())
        if self.state is not LeaseState.SERVING or not (given_up or self._refusals):
            return False
        self._stood_still = seconds
        registries = {*self._taken, *self._refusals}
        self._taken.clear()
        self._ask(registries)
        return True

    # -- what registries say ---------------------------------------------------------------------------------

    def taken(self, registry: str, asked: float) -> None:
        """
        Note that a registry has us as the master.

        @param asked: when it was asked, in seconds of the clock. An answer may have waited for the end of a standstill.
        """
        if asked < self._since:
            return
        self._taken[registry] = asked
        self._refusals.pop(registry, None)
        self._heard(registry)

    def refused(self, registry: str, why: str) -> None:
        """Note that a registry has another master of our name, or does not want us as one."""
        now = self._seconds()
        self._taken.pop(registry, None)
        self._refusals[registry] = (now, why)
        if self._serving_until is None:
            self._serving_until = now + GRACE_TIME * (1 + self._fraction() / 2)
        elsewhere = any(now - asked <= LEASE for asked in self._taken.values())
        if self.state is not LeaseState.STEPPED_DOWN and (self._new or not elsewhere or now >= self._serving_until):
            self.state = LeaseState.STEPPED_DOWN
            self._new = True
        self._heard(registry)

    def missed(self, registry: str) -> None:
        """Note that a registry did not answer; its refusal counts as long as it would keep the other master."""
        refusal = self._refusals.get(registry)
        if refusal is not None and self._seconds() - refusal[0] > LEASE:
            del self._refusals[registry]
        self._heard(registry)

    def left(self) -> list[str]:
        """Return the registries that have us although we stepped down: we leave them, and they are forgotten here."""
        if self.state is not LeaseState.STEPPED_DOWN:
            return []
        left = list(self._taken)
        self._taken.clear()
        return left

    def again(self, registries: Collection[str]) -> bool:
        """Begin anew, with these registries, where we stepped down and none refuses us any more; tell whether so."""
        if self.state is not LeaseState.STEPPED_DOWN or self._refusals:
            return False
        self._ask(registries)
        return True

    def _heard(self, registry: str) -> None:
        self._waiting.discard(registry)
        if not self._refusals:
            self._serving_until = None
        if self._waiting or self._refusals:
            return
        if self._taken:
            self._new = False
        if self.state is LeaseState.ASKING and (self._taken or not self._stood_still):
            self.state = LeaseState.SERVING
            self._stood_still = 0.0
