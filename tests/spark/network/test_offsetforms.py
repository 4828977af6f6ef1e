"""Tests of L{smartgo.spark.network.offsetforms}."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark.network.offsetforms import (
    NamedQueue,
    PositionByQueue,
    as_json,
    assigned,
    from_json,
    named_offsets,
    named_times,
    resolved,
)
from smartgo.spark.network.queueranges import Queue
from smartgo.spark.options import EARLIEST, LATEST


class FormTests(SynchronousTestCase):
    def test_offsets(self) -> None:
        """Positions are words, or offsets by topic and queue, with or without the broker."""
        self.assertEqual(named_offsets("Latest", EARLIEST), PositionByQueue(LATEST))
        self.assertEqual(named_offsets("earliest", LATEST), PositionByQueue(EARLIEST))
        found = named_offsets('{"T": {"a:0": 5, "1": -2, "x:y:2": -1}}', EARLIEST)
        expected = {NamedQueue("T", "a", 0): 5, NamedQueue("T", None, 1): -2, NamedQueue("T", "x:y", 2): -1}
        self.assertEqual(found, PositionByQueue(EARLIEST, expected))

    def test_wrong(self) -> None:
        """Other forms are refused, and what is wrong is named."""
        for text in ("5", "[]", "{}", '{"T": 5}', '{"T": {"a:0": -3}}', '{"T": {"a:": 1}}', '{"T": {":0": 1}}', "x",
                     '{"T": {"0": true}}', '{"T": {"0": 1.5}}'):  # fmt: skip
            self.assertRaises(ValueError, named_offsets, text, EARLIEST)
        self.assertRaises(ValueError, named_times, '{"T": {"0": -1}}', LATEST)
        for text in ('{"T": []}', '{"T": [-1]}', '{"T": ["x"]}', '{"T": [true]}', '["T"]'):
            self.assertRaises(ValueError, assigned, text)

    def test_assigned(self) -> None:
        """Queues are named by numbers, or with their broker."""
        found = assigned('{"T": [0, "1"], "S": ["b:3"]}')
        self.assertEqual(found, {NamedQueue("T", None, 0), NamedQueue("T", None, 1), NamedQueue("S", "b", 3)})

    def test_resolved(self) -> None:
        """A queue number alone is enough where one broker has it; else the brokers are named."""
        queues = [Queue("T", "a", 0), Queue("T", "b", 0), Queue("T", "b", 1)]
        one, both, none = NamedQueue("T", None, 1), NamedQueue("T", None, 0), NamedQueue("T", "a", 1)
        self.assertEqual(resolved([one], queues, "assign"), {one: queues[2]})
        self.assertIn("a, b", str(self.assertRaises(SettingError, resolved, [both], queues, "assign")))
        self.assertIn(
            "option assign: topic T, queue a:1 is not",
            str(self.assertRaises(SettingError, resolved, [none], queues, "assign")),
        )

    def test_json(self) -> None:
        """Offsets come back from the form that checkpoints have, whose text does not depend on the order."""
        offsets = {Queue("T", "b:c", 1): 7, Queue("S", "a", 10): 3, Queue("T", "a", 2): 1}
        written = json.dumps(as_json(offsets))
        self.assertEqual(written, '{"S": {"a:10": 3}, "T": {"a:2": 1, "b:c:1": 7}}')
        self.assertEqual(from_json(json.loads(written)), offsets)
        self.assertRaises(SettingError, from_json, {"/store": 12})
        self.assertRaises(SettingError, from_json, {"T": {"0": 12}})
