"""
Whether this broker may serve as the master of its name, by what the registries say (reliability H6). Without any I/O.

Our registries keep a name for the master that registered it, until it leaves, its connection has ended for 10 s, or
120 s of silence are over, and refuse everybody else. RocketMQ's never refuse. From their words follows::

    state          what happens                                  follows

    ASKING         all have answered or not, one takes us        SERVING
    ASKING         none answers, at the start                    SERVING: brokers work without registries (H7)
    ASKING         none answers, after a standstill              ASKING: another may have our name unknown to us
    any            a registry refuses us, who are new            STANDING_BACK: we leave those that took us
    SERVING        the same, another has us, we are not new      SERVING for 10 to 15 s, then STANDING_BACK
    SERVING        the same, and no other has us any more        STANDING_BACK
    SERVING        a standstill outlasts what a registry grants  ASKING
    STANDING_BACK  no registry refuses us any more               ASKING

New is who has not been taken by every registry that answers. So one who comes to a taken name yields at once, even
where another registry does not know of the first. After a split of the registries two may hold the name, each at its
side: the first to lose patience, by chance, yields to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import Final

LEASE: Final = 120.0
"""Seconds for which a registry keeps a name after it heard of its holder."""
PATIENCE: Final = 10.0
"""Seconds for which who is master elsewhere goes on although a registry refuses him; half as many more, by chance."""


class LeaseState(Enum):
    """Whether messages are taken."""

    ASKING = "asking the registries whether another broker has the name"
    SERVING = "serving"
    STANDING_BACK = "another broker has the name"


class MasterLease:
    """
    The claim of one broker to its name.

    @ivar standing: the state.
    """

    def __init__(self, seconds: Callable[[], float], fraction: Callable[[], float]) -> None:
        """
        @param seconds: the monotonic clock.
        @param fraction: a number from 0 to 1, by chance.
        """
        self._seconds = seconds
        self._fraction = fraction
        self.standing = LeaseState.SERVING
        self._new = True
        self._since = 0.0  # what registries were asked before says nothing, in seconds of the clock
        self._stood_still = 0.0  # seconds; above 0: what we ask about
        self._taken: dict[str, float] = {}  # registry to when we asked it
        self._refusals: dict[str, tuple[float, str]] = {}  # registry to when it refused last, and why
        self._waiting: set[str] = set()  # registries whose word is outstanding
        self._patient_until: float | None = None

    def begin(self, registries: Collection[str]) -> None:
        """These registries are asked for the first time now."""
        self._ask(registries)

    def _ask(self, registries: Collection[str]) -> None:
        self._waiting = set(registries)
        self._since = self._seconds()
        self._new = True
        self.standing = LeaseState.ASKING if registries else LeaseState.SERVING

    def only(self, registries: Collection[str]) -> None:
        """There are no other registries than these now."""
        for known in (self._taken, self._refusals):
            for gone in known.keys() - set(registries):
                del known[gone]
        self._waiting.intersection_update(registries)

    @property
    def reason(self) -> str | None:
        """Why no messages are taken; C{None} while they are."""
        if self.standing is LeaseState.SERVING:
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
        """Whether to register with a registry: while we stand back only with those that refuse us."""
        return self.standing is not LeaseState.STANDING_BACK or registry in self._refusals

    def lapsed(self, seconds: float) -> bool:
        """
        The process stood still for so long: whether a registry may have given our name away meanwhile.

        All of them are to be asked then. A registry that had us no more before the standstill, as it is down, does not
        matter: without it we went on. Where one refuses us the time to be patient has passed.
        """
        now = self._seconds()
        given_up = any(now - seconds <= asked + LEASE < now for asked in self._taken.values())
        if self.standing is not LeaseState.SERVING or not (given_up or self._refusals):
            return False
        self._stood_still = seconds
        registries = {*self._taken, *self._refusals}
        self._taken.clear()
        self._ask(registries)
        return True

    # -- what registries say ---------------------------------------------------------------------------------

    def taken(self, registry: str, asked: float) -> None:
        """
        A registry has us as the master.

        @param asked: when it was asked, in seconds of the clock. An answer may have waited for the end of a standstill.
        """
        if asked < self._since:
            return
        self._taken[registry] = asked
        self._refusals.pop(registry, None)
        self._heard(registry)

    def refused(self, registry: str, why: str) -> None:
        """A registry has another master of our name, or does not want us as one."""
        now = self._seconds()
        self._taken.pop(registry, None)
        self._refusals[registry] = (now, why)
        if self._patient_until is None:
            self._patient_until = now + PATIENCE * (1 + self._fraction() / 2)
        elsewhere = any(now - asked <= LEASE for asked in self._taken.values())
        if self.standing is not LeaseState.STANDING_BACK and (self._new or not elsewhere or now >= self._patient_until):
            self.standing = LeaseState.STANDING_BACK
            self._new = True
        self._heard(registry)

    def missed(self, registry: str) -> None:
        """A registry did not answer; its refusal stands for as long as the one it spoke for would be kept there."""
        refusal = self._refusals.get(registry)
        if refusal is not None and self._seconds() - refusal[0] > LEASE:
            del self._refusals[registry]
        self._heard(registry)

    def left(self) -> list[str]:
        """Return the registries that have us although we stand back: we leave them, and they are forgotten here."""
        if self.standing is not LeaseState.STANDING_BACK:
            return []
        left = list(self._taken)
        self._taken.clear()
        return left

    def again(self, registries: Collection[str]) -> bool:
        """Whether nobody refuses us any more, who stand back: these registries are to be asked then."""
        if self.standing is not LeaseState.STANDING_BACK or self._refusals:
            return False
        self._ask(registries)
        return True

    def _heard(self, registry: str) -> None:
        self._waiting.discard(registry)
        if not self._refusals:
            self._patient_until = None
        if self._waiting or self._refusals:
            return
        if self._taken:
            self._new = False
        if self.standing is LeaseState.ASKING and (self._taken or not self._stood_still):
            self.standing = LeaseState.SERVING
            self._stood_still = 0.0
