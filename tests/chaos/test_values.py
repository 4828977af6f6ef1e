"""The messages of clients."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.values import body_of, parse_queue, queue_name, value_of


class BodyTests(SynchronousTestCase):
    """A body names its value and is told apart from every other."""

    def test_value(self) -> None:
        """Bodies of any size begin with their value."""
        for size in (0, 1, 20, 1000):
            body = body_of("m-17", size)
            self.assertEqual(len(body), max(size, len("m-17|")))
            self.assertEqual(value_of(body), "m-17")

    def test_foreign(self) -> None:
        """The value of a foreign body is short and is text, whatever it holds."""
        self.assertEqual(value_of(b"java-3"), "java-3")
        self.assertLessEqual(len(value_of(b"\xff" * 1000)), 80)
        self.assertEqual(value_of(b""), "")

    def test_queue(self) -> None:
        """A queue is named by a text that names it again, whatever its broker is called."""
        for name in ("Chaos@broker-a:0", "%RETRY%g@b:c:17"):
            self.assertEqual(queue_name(parse_queue(name)), name)
