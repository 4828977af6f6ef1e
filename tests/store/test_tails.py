"""The ends of log and queues: the compiled ones and their twins in Python."""

from __future__ import annotations

import gc
import mmap
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.tails import LogTail, PureLogTail, PureQueueTail, QueueTail

LOG = ("end", "torn", "stored_ms", "now_ms", "base")
QUEUE = ("queue_id", "overhead", "next_offset", "reserved", "stored_ms")


class Tails(SynchronousTestCase):
    """Tests of one pair of classes."""

    log: Any = PureLogTail
    queue: Any = PureQueueTail

    def test_empty(self) -> None:
        """At first there is nothing: no file, no unit."""
        log, queue = self.log(), self.queue()
        self.assertEqual([getattr(log, name) for name in LOG], [0] * 5)
        self.assertEqual((log.limit, bytes(log.view)), (-1, b""))
        self.assertEqual([getattr(queue, name) for name in QUEUE], [0] * 5)
        self.assertEqual((queue.pending, queue.codes, queue.staged, queue.topic_part), ([], [], [], b""))
        self.assertEqual((queue.delay_ms, bool(queue.dropped)), (None, False))

    def test_kept(self) -> None:
        """Every field keeps what it is given, also as numbers of 64 bits."""
        log, queue = self.log(), self.queue()
        for number, name in enumerate((*LOG, "limit")):
            setattr(log, name, (1 << 62) + number)
        for number, name in enumerate(QUEUE):
            setattr(queue, name, (1 << 62) + number)
        self.assertEqual([getattr(log, name) for name in (*LOG, "limit")], [(1 << 62) + one for one in range(6)])
        self.assertEqual([getattr(queue, name) for name in QUEUE], [(1 << 62) + one for one in range(5)])
        units, codes, staged = [b"u"], [1], [queue]
        queue.pending, queue.codes, queue.staged, queue.topic_part = units, codes, staged, b"\1T"
        queue.delay_ms, queue.dropped = 5, True
        self.assertIs(queue.pending, units)
        self.assertIs(queue.codes, codes)
        self.assertIs(queue.staged, staged)
        self.assertEqual((queue.topic_part, queue.delay_ms, bool(queue.dropped)), (b"\1T", 5, True))

    def test_lets_go(self) -> None:
        """A mapping can be closed once the tail has another view, or is gone."""
        for go in ("view", "tail"):
            mapping = mmap.mmap(-1, 4096)
            log = self.log()
            log.view = memoryview(mapping)
            self.assertRaises(BufferError, mapping.close)
            if go == "view":
                log.view = memoryview(b"")
            else:
                del log
            gc.collect()
            mapping.close()
            self.assertTrue(mapping.closed)

    def test_circle(self) -> None:
        """A tail in a circle with its view is collected."""

        class Log(self.log):  # type: ignore[name-defined,misc]
            me: Any = None

        mapping = mmap.mmap(-1, 4096)
        log = Log()
        log.view, log.me = memoryview(mapping), log
        del log
        gc.collect()
        mapping.close()


class ChosenTails(Tails):
    log = LogTail
    queue = QueueTail

    def test_read_only(self) -> None:
        """What cannot be written to is no file of a log; the view before it stays."""
        if LogTail is PureLogTail:
            self.skipTest("Python finds out when it writes")
        log = LogTail()
        log.view = memoryview(bytearray(8))
        self.assertRaises(BufferError, setattr, log, "view", memoryview(b"no"))
        self.assertEqual(bytes(log.view), bytes(8))
