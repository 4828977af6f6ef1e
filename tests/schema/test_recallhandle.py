"""The handle of a recall."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import IllegalOperation
from smartgo.schema import recallhandle
from smartgo.schema.recallhandle import RecallHandle

__doctests__ = [recallhandle]


HANDLE = "djEgdG9waWMgYnJva2VyIDE3MzU4ODc2MDAwMDEgMEE="


class RecallHandleTests(SynchronousTestCase):
    """Handles."""

    def test_java(self) -> None:
        """A handle is what C{RecallMessageHandle.HandleV1.buildHandle} of RocketMQ 5.3.3 returns."""
        text = HANDLE
        handle = RecallHandle("topic", "broker", "1735887600001", "0A")
        self.assertEqual(handle.format(), text)
        self.assertEqual(RecallHandle.parse(text), handle)

    def test_invalid(self) -> None:
        """What is no handle is refused as RocketMQ refuses it."""
        for text in (
            "",
            "x",
            "\u00e9",
            "djE=",
            "djIgYSBiIDEgYw==",
            "/////w==",
            f"{HANDLE}x",
            f"{HANDLE}=",
            f" {HANDLE}",
        ):
            error = self.assertRaises(IllegalOperation, RecallHandle.parse, text)
            self.assertEqual((error.code, str(error)), (604, "recall handle is invalid"))
