"""The command that repairs a store directory."""

from __future__ import annotations

import errno
import json
from typing import Any

from tests.cli.commands.test_store import ROOT, StoreDirectoryCase
from tests.golden_store import read


class RepairCommandTests(StoreDirectoryCase):
    def setUp(self) -> None:
        """A damaged store."""
        super().setUp()
        self.lay("store-a")
        self.messages = read("store-a").manifest["messages"]
        for number in (10, 200, 610):
            at = self.messages[number]["physicalOffset"]
            self.flip(f"commitlog/{at - at % 1048576:020d}", at % 1048576 + 88)

    def repair(self, *options: str, status: int = 0) -> Any:
        """Run it."""
        return json.loads(self.invoke("store", "repair", ROOT, *options, "-o", "json", status=status).stdout)

    def test_dry_run(self) -> None:
        """A dry run says what would be done, and changes nothing."""
        found = self.repair("--dry-run")
        self.assertEqual([one["kind"] for one in found["steps"]], ["log"] * 3 + ["queue", "index", "checkpoint"])
        self.unchanged()
        words = self.out("store", "repair", ROOT, "--dry-run")
        self.assertIn("Nothing was changed.", words)
        self.assertIn("body CRC differs", words)

    def test_repair(self) -> None:
        """A repair leaves a sound, closed store, with all other messages; a second one has nothing to do."""
        found = self.repair("--yes")
        after = found["after"]
        self.assertEqual((after["damaged"], after["clean"]), (False, True))
        self.assertEqual([one["weight"] for one in after["findings"]], ["note"])
        topics = [json.loads(line) for line in self.out("store", "dump", ROOT, "-o", "jsonl").splitlines()]
        left = [one["physical_offset"] for one in topics if one["topic"] != "SMARTGO_DAMAGED"]
        expected = [one["physicalOffset"] for at, one in enumerate(self.messages) if at not in (10, 200, 610)]
        self.assertEqual(left, expected)
        lines = self.out("store", "dump", ROOT, "--topic", "SMARTGO_DAMAGED").splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertTrue(line.endswith("B  stands for damage that was repaired: body CRC differs"), line)
        self.assertEqual(self.repair("--yes")["steps"], [])
        self.assertIn("There is nothing to repair.", self.out("store", "repair", ROOT))

    def test_disk_errors(self) -> None:
        """Where the disk, or the rights, do not let the command go on, a sentence says so, and status 74."""

        def failing(path: str, *arguments: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system", path)

        patched = self.patch(self.env.files, "overwrite", failing)
        told = self.refused("store", "repair", ROOT, "--yes", status=74)
        self.assertEqual(told, f"smartgo: {ROOT}/commitlog/{0:020d}: Read-only file system\n")
        patched.restore()
        self.patch(self.env.files, "read", failing)
        for words in (("repair", ROOT, "--yes"), ("repair", ROOT, "--dry-run"), ("verify", ROOT), ("ls", ROOT)):
            self.assertIn(": Read-only file system", self.refused("store", *words, status=74))

    def test_asks(self) -> None:
        """Without a yes nothing is changed."""
        self.invoke("store", "repair", ROOT, status=2)
        self.unchanged_but_lock()

    def test_in_use(self) -> None:
        """A store that a broker has locked is not repaired; a dry run is possible."""
        lock = self.env.files.lock_directory(ROOT)
        self.assertIn("held by process 4711", self.refused("store", "repair", ROOT, "--yes", status=75))
        self.repair("--dry-run")
        self.unchanged_but_lock()
        lock.release()

    def test_from(self) -> None:
        """With a copy of the same log nothing is missing."""
        self.lay("store-a", "/slave")
        found = self.repair("--yes", "--from", "/slave")
        self.assertEqual(found["after"]["findings"], [])
        self.assertEqual(len(self.lines("store", "dump", ROOT)), len(self.messages))

    def test_left(self) -> None:
        """What cannot be repaired is said, and the status is 1; the rest is repaired."""
        for name in ("topics.json", "topics.json.bak"):
            self.env.files.files[f"{ROOT}/config/{name}"].data[:] = b"{"
        found = self.repair("--yes", status=1)
        self.assertIn("left", [one["kind"] for one in found["steps"]])
        self.assertEqual(
            [one["where"] for one in found["after"]["findings"] if one["weight"] == "damage"],
            [f"{ROOT}/config/topics.json"],
        )

    def unchanged_but_lock(self) -> None:
        """No file was changed, though the directory may have been locked."""
        self.before.setdefault(f"{ROOT}/lock", b"lock")
        self.unchanged()
