"""How a slave goes on behind what its master's disk cannot read."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from smartgo.ha import masterdamage
from smartgo.ha.interfaces import IMasterTail, Tail
from smartgo.ha.masterdamage import pass_unreadable
from smartgo.store.replicatedlog import FoundDamage
from tests.fakes import FakeEnvironment
from tests.ha.fakes import FakeLog


@implementer(IMasterTail)
class DamagedTail:
    """A master whose log has one region that the disk cannot read."""

    def ask(
        self, master: str, begin: int, end: int, follow: bool = False, read: bool = False, check: bool = False
    ) -> Deferred[Tail | None]:
        """Answer at once."""
        return succeed(Tail(0, 200, None, damaged=(FoundDamage(100, 40, is_unreadable=True),)))


class UnreadableTests(SynchronousTestCase):
    """A slave that has everything before the region."""

    def test_turns(self) -> None:
        """A region may be as large as a file: the reactor has its turn between the pieces of zeros that are written."""
        self.patch(masterdamage, "_WRITTEN", 16)
        clock = FakeEnvironment().clock
        log = FakeLog(bytes(100))
        passing = Deferred.fromCoroutine(pass_unreadable(clock, log, DamagedTail(), "m:1"))
        self.assertEqual((log.expected, log.appended), ([(100, 140)], [(100, 16)]))
        self.assertNoResult(passing)
        clock.pump([0.0] * 3)
        self.successResultOf(passing)
        self.assertEqual((log.appended, log.end), ([(100, 16), (116, 16), (132, 8)], 140))
