"""The choice of what is sampled."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.figures.samplechoice import WANTED, SampleChoice


class SampleChoiceTests(SynchronousTestCase):
    """Up to a number of names."""

    def test_few(self) -> None:
        """All are chosen where there are no more than the limit, and none is left to probe."""
        choice = SampleChoice(3, 2)
        choice.know(["a", "b", "c"])
        self.assertEqual((choice.chosen(), choice.probed()), ({"a", "b", "c"}, []))

    def test_heaviest(self) -> None:
        """The most active are chosen, of equal ones the first."""
        choice = SampleChoice(3)
        choice.know("abcdef")
        self.assertEqual(choice.chosen(), {"a", "b", "c"})
        choice.weigh("f", 7.0)
        choice.weigh("e", 9.0)
        self.assertEqual(choice.chosen(), {"e", "f", "a"})

    def test_fades(self) -> None:
        """A name stays chosen over a short pause, and makes room for a busier one at last."""
        choice = SampleChoice(1)
        choice.know("ab")
        choice.weigh("b", 10.0)
        for _ in range(20):
            choice.know("ab")
            choice.weigh("b", 0.0)
            choice.weigh("a", 5.0)
        self.assertEqual(choice.chosen(), {"b"})
        for _ in range(20):
            choice.know("ab")
            choice.weigh("a", 5.0)
        self.assertEqual(choice.chosen(), {"a"})

    def test_wanted(self) -> None:
        """What somebody opened is chosen before all others, the last ones that were; what does not exist is not."""
        choice = SampleChoice(2)
        names = [f"n{number}" for number in range(WANTED + 9)]
        choice.know(names)
        choice.weigh("n0", 99.0)
        for name in ("n5", "gone", "n6"):
            choice.want(name)
        self.assertEqual(choice.chosen(), {"n6", "n0"})
        choice.want("n7")
        self.assertEqual(choice.chosen(), {"n6", "n7"})

    def test_probed(self) -> None:
        """All others have their turn to be looked at, whatever their number."""
        for count in range(4, 40):
            choice = SampleChoice(3, 5)
            names = [str(number) for number in range(count)]
            choice.know(names)
            seen = {name for _ in range(count) for name in choice.probed()}
            self.assertEqual(seen | choice.chosen(), set(names))
            self.assertEqual(len(set(choice.probed())), min(5, count - 3))

    def test_forgotten(self) -> None:
        """Names that are gone weigh nothing, and take no memory."""
        choice, random = SampleChoice(5), Random(1)
        for turn in range(50):
            names = [f"{turn}-{number}" for number in range(20)]
            choice.know(names)
            for name in names:
                choice.weigh(name, random.random())
            self.assertLessEqual(choice.chosen(), set(names))
        self.assertEqual(len(choice._weights), 20)
