"""Dead letters of one message."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.lettercopies import LetterCopy, older_copies


class CopiesTests(SynchronousTestCase):
    """Which of several dead letters of one message is the latest."""

    def test_alone(self) -> None:
        """Letters of different messages are no copies of each other; one without an origin is its own."""
        found = [LetterCopy.of("a", 1, {"ORIGIN_MESSAGE_ID": "x"}), LetterCopy.of("b", 2, {})]
        self.assertEqual(older_copies(found), {})

    def test_read(self) -> None:
        """Letters are copies by the first record and the unique id together: one of the two is not enough."""
        letters = [
            LetterCopy.of(name, at, {"ORIGIN_MESSAGE_ID": origin, "UNIQ_KEY": unique})
            for at, (name, origin, unique) in enumerate(
                (("a", "x", "1"), ("b", "x", "2"), ("c", "y", "1"), ("d", "x", "1"))
            )
        ]
        self.assertEqual(older_copies(letters), {"a": "d"})

    def test_twice(self) -> None:
        """A message that was given back twice has two letters of one origin."""
        found = [LetterCopy("b", 2, "x", ""), LetterCopy("a", 1, "x", ""), LetterCopy("c", 3, "y", "")]
        self.assertEqual(older_copies(found), {"a": "b"})

    def test_resent(self) -> None:
        """A chain of copies to the topic, each with an origin of its own, is one message, in any order."""
        chain = [LetterCopy("a", 1, "x", ""), LetterCopy("b", 2, "y", "a"), LetterCopy("c", 3, "z", "b")]
        for found in (chain, chain[::-1], [chain[1], chain[0], chain[2]]):
            self.assertEqual(older_copies(found), {"a": "c", "b": "c"})

    def test_gone(self) -> None:
        """Copies of a letter that retention removed are known by its id."""
        found = [LetterCopy("b", 2, "y", "a"), LetterCopy("c", 3, "z", "a")]
        self.assertEqual(older_copies(found), {"b": "c"})

    def test_any(self) -> None:
        """Letters that are connected in any way, by origins and by what they were sent again from, are one message."""
        chance = Random(7)
        for _ in range(300):
            count = chance.randrange(1, 12)
            found = [
                LetterCopy(
                    f"i{number}",
                    chance.randrange(5),
                    f"o{chance.randrange(8)}",
                    f"i{chance.randrange(count + 2)}" if chance.random() < 0.3 else "",
                )
                for number in range(count)
            ]
            groups = [{one.offset_id, one.origin, one.resent_from or one.offset_id} for one in found]
            for _ in groups:  # so often that whatever is connected is one
                groups = [set().union(*(other for other in groups if other & each)) for each in groups]
            expected = {}
            for one, group in zip(found, groups, strict=True):
                latest = max((other.stored_ms, other.offset_id) for other in found if other.offset_id in group)[1]
                if latest != one.offset_id:
                    expected[one.offset_id] = latest
            self.assertEqual(older_copies(found), expected, found)
