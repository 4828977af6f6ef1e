"""The times of a run, and their report."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.checker import check
from tests.chaos.figures import effects
from tests.chaos.history import Event, Fault, Info, Invoke, Note
from tests.chaos.report import report
from tests.chaos.test_checker import read_finally, sent


def cut(begin: float, end: float, count: int = 1) -> list[Event]:
    """Return a fault between two moments."""
    return [
        Fault(t=begin, name="link cut", target="a and b", on=True),
        Fault(t=end, name="link cut", target="a and b", on=False, count=count),
    ]


class EffectTests(SynchronousTestCase):
    """The effects of a fault on clients."""

    def test_sends(self) -> None:
        """It counts from the fault's end to the first send begun after it, and finds the longest silence until then."""
        (effect,) = effects([*sent("a", 0, 5.5), *cut(10, 20), *sent("b", 1, 19.9), *sent("c", 2, 22)])
        self.assertEqual((effect.begin, effect.end, effect.count), (10, 20, 1))
        self.assertAlmostEqual(effect.sent_after or 0, 2.5)
        self.assertAlmostEqual(effect.silence or 0, 10.4)

    def test_never(self) -> None:
        """Without a send after it there is no figure."""
        (effect,) = effects([*sent("a", 0, 5), *cut(10, 20)])
        self.assertEqual((effect.sent_after, effect.safe_after, effect.silence), (None, None, None))

    def test_weak(self) -> None:
        """A send that was stored more weakly than asked for is taken, but not yet safe."""
        (effect,) = effects([*cut(10, 20), *sent("a", 0, 21, code=11), *sent("b", 1, 24)])
        self.assertEqual((effect.sent_after, effect.safe_after), (1.5, 4.5))

    def test_again(self) -> None:
        """A fault that comes twice is told twice."""
        events = [*cut(10, 20), *sent("a", 0, 21), *cut(30, 40), *sent("b", 1, 45)]
        self.assertEqual([effect.sent_after for effect in effects(events)], [1.5, 5.5])


class ReportTests(SynchronousTestCase):
    """The text."""

    def test_valid(self) -> None:
        """It names the verdict, the facts, each fault, and what happened in each second."""
        events = [
            *sent("a", 0, 1.2),
            *cut(3, 4, 7),
            *sent("b", 1, 4.1),
            *read_finally(["a", "b"]),
            Note(t=5, text="hm"),
        ]
        text = report("cut", events, check(events), {"seed": 3})
        lines = text.splitlines()
        self.assertEqual(lines[0], "cut: valid")
        self.assertIn("  seed: 3", lines)
        self.assertIn("  ok: 2", lines)
        (fault,) = [line for line in lines if "seen 7 times" in line]
        self.assertIn("sends back 0.60 s after its end", fault)
        self.assertIn("     1        1       1       0       0       0       0", lines)
        self.assertTrue(lines[-1].endswith("hm"))

    def test_invalid(self) -> None:
        """It names anomalies, a few of each kind, and how many there are."""
        events = [*sent("z", 0, 0.1), *[event for n in range(30) for event in sent(f"v{n}", n + 1, 1 + n)]]
        events += read_finally(["z"])
        text = report("bad", events, check(events), {})
        self.assertIn("bad: invalid", text)
        self.assertEqual(text.count("lost: v"), 20)
        self.assertIn("lost: 10 more", text)

    def test_unknown(self) -> None:
        """It says why there is no verdict."""
        begun: list[Event] = [Invoke(t=1, value="a"), Info(t=2, value="a", why="timed out")]
        text = report("none", begun, check(begun), {})
        self.assertIn("none: unknown", text)
        self.assertIn("nothing was acknowledged with code 0", text)
