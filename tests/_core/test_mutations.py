"""The list of mutations of the compiled core, against its sources."""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests._core.mutants import CORE, ROOT
from tests._core.mutations import MUTATIONS


class MutationTests(SynchronousTestCase):
    """Each of L{MUTATIONS<tests._core.mutations.MUTATIONS>}."""

    def test_found_once(self) -> None:
        """The text that a mutation replaces is in its file exactly once, so that no mutation changes nothing."""
        for one in MUTATIONS:
            source = Path(ROOT, CORE, one.file).read_text()
            self.assertEqual(source.count(one.old), 1, f"{one.file}: {one.old}")
            self.assertNotEqual(one.old, one.new)
