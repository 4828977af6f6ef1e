"""Tests of L{smartgo.schema.checkpoint}."""

from __future__ import annotations

import struct

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.checkpoint import CHECKPOINT, FILE_SIZE, Checkpoint
from tests import golden_store


class CheckpointTests(SynchronousTestCase):
    def test_layout(self) -> None:
        """Three timestamps and 5.x's two offsets, then zeros up to 4096 bytes."""
        made = Checkpoint(1, 2, 3, 4, 5)
        self.assertEqual(made.pack(), struct.pack(">5q", 1, 2, 3, 4, 5) + bytes(4056))
        self.assertEqual(CHECKPOINT.build(made._asdict()), made.pack()[:40])
        self.assertEqual(Checkpoint.unpack(made.pack()), made)
        self.assertEqual(len(Checkpoint().pack()), FILE_SIZE)

    def test_short(self) -> None:
        """A file that is cut short cannot be read."""
        self.assertRaises(struct.error, Checkpoint.unpack, bytes(39))

    def test_safe(self) -> None:
        """What is safe is the lesser of log and queues less 3 s, never negative; with the index, no later than that."""
        self.assertEqual(Checkpoint(10_000, 9000, 1).safe_ms, 6000)
        self.assertEqual(Checkpoint(8000, 9000, 1).safe_ms, 5000)
        self.assertEqual(Checkpoint(2000, 9000, 1).safe_ms, 0)
        self.assertEqual(Checkpoint(10_000, 9000, 5999).safe_with_index_ms, 5999)
        self.assertEqual(Checkpoint(10_000, 9000, 6001).safe_with_index_ms, 6000)

    def test_golden(self) -> None:
        """The real files are read as the official decoder did, and rebuilt to the same bytes."""
        for name in golden_store.NAMES:
            store = golden_store.read(name)
            data, manifest = store.files["checkpoint"], store.manifest["checkpoint"]
            made = Checkpoint.unpack(data)
            self.assertEqual(made[:3], tuple(manifest[f"{part}MsgTimestamp"] for part in ("physic", "logics", "index")))
            self.assertEqual(CHECKPOINT.parse(data).physical_ms, made.physical_ms)
            self.assertEqual(made.pack(), data)
