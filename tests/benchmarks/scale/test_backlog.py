"""Tests for L{benchmarks.scale.backlog} and L{benchmarks.scale.backlogreport}: arithmetic and tables, no broker."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.scale.backlog import PLACES, QUEUES, Backlog, Fill, Outcome, Pull, Stage, begin_of, pulled
from benchmarks.scale.backlogreport import table
from benchmarks.scale.process import Held, Sized, Start
from benchmarks.scale.storefiles import Disk
from benchmarks.targets import Bench


class PlaceTests(SynchronousTestCase):
    """Where the measured pulls begin."""

    def test_apart(self) -> None:
        """The places do not overlap, and all that is read lies within the queue."""
        for stored in (1000, 100_000, 1_000_000, 10_000_000, 100_000_000):
            count = pulled(stored) // QUEUES
            begins = [begin_of(place, stored) for place in PLACES]
            self.assertEqual(begins[0], 0)
            for one, next_one in itertools.pairwise(begins):
                self.assertLessEqual(one + count, next_one)
            self.assertLessEqual(begins[2] + count * 5 // 4, stored // QUEUES)

    def test_most(self) -> None:
        """A large backlog is not read whole."""
        self.assertEqual((pulled(100_000_000), pulled(1_000)), (2_000_000, 250))


class OutcomeTests(SynchronousTestCase):
    """What is told."""

    def stage(self, messages: int) -> Stage:
        """Return a stage of figures that are easy to see."""
        held = Held(50_000_000, 90_000_000, 30, 300)
        return Stage(
            messages,
            Fill(messages, 2.0, 1.25),
            Disk(messages * 170, messages * 20, 36_000_000, 0, 19),
            held,
            [Start("killed", 3.0, 1.5, held), Start("clean", 2.0, 1.0, held, 0.5)],
            [Pull("head", True, 320, 10, 0.5, 4.5)],
        )

    def test_table(self) -> None:
        """Bytes a message, starts and pulls stand in a line each."""
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(Outcome(64, False, [self.stage(1000), self.stage(4000)])))
        lines = {line.split("│")[1].strip(): line for line in console.export_text().splitlines() if "│" in line}
        for name, cells in {
            "storing: messages/s": ("500.0", "2,000", "4.00"),
            "disk: log, bytes a message": ("170.0", "170.0", "1.00"),
            "start, killed: s until ready": ("3.00", "3.00", "1.00"),
            "clean stop: s": ("0.50", "0.50", "1.00"),
            "pull, head, from disk: messages an answer": ("32.00", "32.00", "1.00"),
            "pull, tail, again: messages/s": ("", "", ""),
        }.items():
            self.assertEqual(tuple(cell.strip() for cell in lines[name].split("│")[2:5]), cells)

    def test_broke_off(self) -> None:
        """Where no broker comes up, the outcome says why and has no stage."""

        class Broken(Sized):
            def registry_command(self) -> list[str]:
                return ["false"]

        folder = Path(self.mktemp())
        folder.mkdir()
        target = Bench(folder.absolute(), 29700).one_of_ours(Broken)
        outcome = Backlog(target, Path("load"), 64, False, 0, lambda words: None).run((10,))
        self.assertEqual(outcome.stages, [])
        self.assertIn("broke off: ", outcome.complaints[0])
