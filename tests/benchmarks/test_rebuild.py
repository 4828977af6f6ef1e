"""Tests for L{benchmarks.rebuild}: the stores that it writes, and the arithmetic."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks import rebuild
from benchmarks.rebuild import Start, missed, table
from benchmarks.timers import Machine
from smartgo.store.opening import open_store

MIB = 1 << 20


class StoreTests(SynchronousTestCase):
    """The stores are small here: 2 MiB, and 1 MiB with 1 MiB behind the checkpoint."""

    def written(self, case: str) -> Path:
        """Return the directory of a case, written by a process that has ended."""
        root = Path(self.mktemp()).absolute()
        sizes = f"r.REBUILD_BYTES = {2 * MIB}; r.KILL_BYTES = r.BEHIND_BYTES = {MIB}"
        script = f"import os, pathlib, msgspec, benchmarks.rebuild as r; {sizes}; "
        script += f"r.SETTINGS = msgspec.structs.replace(r.SETTINGS, log_file_size={4 * MIB}); "
        script += f"r.write_store(pathlib.Path({str(root)!r}), {case!r}); os._exit(0)"
        folder = Path(rebuild.__file__).parent.parent
        subprocess.run([sys.executable, "-c", script], check=True, cwd=folder)
        return root

    def recovered(self, root: Path) -> list[tuple[int, int]]:
        """Open a store as after a kill; return the bounds of its queues."""
        opened: list[Any] = []
        machine: Any = Machine(1000.0)
        settings = msgspec.structs.replace(rebuild.SETTINGS, log_file_size=4 * MIB)
        open_store(machine, str(root), settings).addBoth(opened.append)
        bounds = [opened[0].bounds(rebuild.TOPIC, queue) for queue in range(rebuild.QUEUES)]
        opened[0].close()
        return bounds

    def test_rebuild(self) -> None:
        """A store without queues and index, from whose log all queues can be made."""
        root = self.written("rebuild")
        self.assertFalse((root / "abort").exists())
        self.assertFalse((root / "consumequeue").exists())
        self.assertEqual(self.recovered(root), [(0, 256)] * rebuild.QUEUES)
        self.assertTrue((root / "consumequeue").exists())

    def test_kill(self) -> None:
        """A store that was not closed, with queues and index."""
        root = self.written("kill")
        self.assertTrue((root / "abort").exists())
        self.assertTrue(os.listdir(root / "consumequeue"))
        self.assertEqual(self.recovered(root), [(0, 256)] * rebuild.QUEUES)


class TableTests(SynchronousTestCase):
    """Figures of two brokers in two rounds."""

    starts = [
        Start("kill", "ours", 1.0, 2.0, 1.5),
        Start("kill", "theirs", 4.0, 4.0, 9.0),
        Start("kill", "theirs", 6.0, 6.0, 9.0),
        Start("kill", "ours", 3.0, 3.0, 1.5),
    ]

    def test_ratio(self) -> None:
        """Medians, and ratios of neighbouring rounds."""
        out = io.StringIO()
        Console(file=out, width=200).print(table(self.starts))
        rows = [line.split() for line in out.getvalue().splitlines() if "ours" in line or "theirs" in line]
        self.assertIn("2.00", rows[0])
        self.assertIn("0.38", rows[0])  # the median of 1/4 and 3/6
        self.assertIn("5.00", rows[1])

    def test_missed(self) -> None:
        """Only a start that took longer than its goal misses it."""
        self.assertEqual(missed(self.starts), [self.starts[2]])
