"""Tests of L{smartgo.client.internal.settingchecks}: settings refuse wrong values when they are made."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo import (
    AllocateAveragely,
    ConsumeFromWhere,
    ConsumerSettings,
    LitePullSettings,
    MessageModel,
    SettingError,
    Thresholds,
)

COUNT = "an int from 1 to 2147483647"
SOME_SECONDS = "a number of seconds, more than 0"
SECONDS = "a number of seconds, 0 or more"
OPTIONAL = "an int of at least 1, or None"
STRATEGY = "an object with the members name and allocate, such as AllocateAveragely()"
DIRECTORY = "the path of a directory as a str, or None"
MODELS = "MessageModel.BROADCASTING or MessageModel.CLUSTERING"
INT32 = 2**31

SHARED: dict[str, tuple[list[Any], list[Any], str]] = {
    "model": ([*MessageModel], ["CLUSTERING", None], MODELS),
    "begin": ([*ConsumeFromWhere], ["first", 0, None], ""),
    "begin_ms": ([None, 0, 2**40], [-1, "0", 1.5], "an int of at least 0, or None"),
    "strategy": ([AllocateAveragely()], ["AVG", None, AllocateAveragely], STRATEGY),
    "thresholds": ([Thresholds(count=1)], [1000, None], "a Thresholds"),
    "offsets_directory": ([None, "offsets"], [7, b"offsets"], DIRECTORY),
    "batch": ([1, 1000], [0, -1, "1", 1.0, True, None, INT32], COUNT),
}
PUSH = SHARED | {
    "orderly": ([True, False], ["no", 1, None], "True or False"),
    "concurrency": ([1, 64], [0, -1, "20", 2.0, INT32], COUNT),
    "pull_batch": ([1, 32], [0, "32", INT32], COUNT),
    "max_reconsume": ([-1, 0, 3], [-2, "3", 3.0, None, INT32], "an int from -1 to 2147483647"),
    "consume_timeout": ([1, 0.5], [0, -1, "900", None, True, float("inf"), float("nan")], SOME_SECONDS),
    "stop_timeout": ([0, 0.0, 5], [-1, "5", None, float("nan")], SECONDS),
}
LITE = SHARED | {
    "auto_commit": ([True, False], ["yes", 0], "True or False"),
    "commit_interval": ([0.05, 5], [0, -1, "5", None], SOME_SECONDS),
    "poll_timeout": ([0, 0.5], [-0.1, "5", None, float("inf")], SECONDS),
    "count_of_all": ([1], [0, "10", INT32], COUNT),
}
LIMITS: dict[str, tuple[list[Any], list[Any], str]] = {
    "count": ([1], [0, "1000", None, 2.5], COUNT),
    "size": ([1, 2**40], [0, "1", None], f"an int from 1 to {2**63 - 1}"),
    "span": ([None, 1], [0, "1", 1.5], OPTIONAL),
    "topic_count": ([None, 1], [0, "1"], OPTIONAL),
    "topic_size": ([None, 2**40], [0, "1"], OPTIONAL),
}


class SettingCheckTests(SynchronousTestCase):
    """Each field of the settings, with values that it can have and values that it cannot have."""

    def check(self, kind: Any, fields: dict[str, tuple[list[Any], list[Any], str]]) -> None:
        """Each field takes its good values; a wrong one is refused with the field, the value and what is allowed."""
        self.assertEqual(set(fields), set(kind.__struct_fields__))
        for field, (good, wrong, allowed) in fields.items():
            for value in good:
                self.assertEqual(getattr(kind(**{field: value}), field), value)
            for value in wrong:
                error = self.assertRaises(SettingError, kind, **{field: value})
                self.assertIn(f"{kind.__name__}.{field} is {value!r}: give {allowed}", str(error))

    def test_push(self) -> None:
        """The settings of a push consumer."""
        self.check(ConsumerSettings, PUSH)

    def test_lite(self) -> None:
        """The settings of a lite pull consumer."""
        self.check(LitePullSettings, LITE)

    def test_thresholds(self) -> None:
        """The limits of what is fetched."""
        self.check(Thresholds, LIMITS)

    def test_begin(self) -> None:
        """The text names the members that a field can have."""
        error = self.assertRaises(SettingError, ConsumerSettings, begin="first")
        self.assertIn("ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET", str(error))
