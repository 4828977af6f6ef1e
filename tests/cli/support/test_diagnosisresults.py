"""What doctor says of what was measured."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.diagnosisresults import judged
from smartgo.health.judgements import JUDGEMENTS


class AdviceTests(SynchronousTestCase):
    """What to do."""

    def test_name(self) -> None:
        """The commands in an advice name the subject: they run as they are."""
        [found] = judged("dead-letters", "group billing", 3, "3 dead letters")
        self.assertIn("(smartgo dlq show billing --open)", found.advice)
        for name in ("broker-gone", "group-empty", "group-disabled", "dead-letters"):
            self.assertIn(" NAME", JUDGEMENTS[name].advice)
            [found] = judged(name, "group billing", 1000.0)
            self.assertIn(" billing", found.advice)
            self.assertNotIn("NAME", found.advice)
