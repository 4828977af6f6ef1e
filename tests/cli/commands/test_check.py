"""The command that checks a store."""

from __future__ import annotations

import posixpath
from typing import Any

from smartgo.cli.support.progress import ProgressLine
from smartgo.schema.consumequeue import UNIT_SIZE
from tests.cli.case import CommandCase
from tests.golden_store import INDEX_ENTRIES, INDEX_SLOTS, read

ROOT = "/store"
SETTINGS = ("--set", f"maxHashSlotNum={INDEX_SLOTS}", "--set", f"maxIndexNum={INDEX_ENTRIES}")


class CheckTests(CommandCase):
    def lay(self, name: str) -> None:
        """Put a golden store where a command finds it."""
        files = self.env.files
        for path, data in read(name).files.items():
            files.make_directories(posixpath.dirname(f"{ROOT}/{path}"))
            files.create(f"{ROOT}/{path}", data)
        self.before = {path: bytes(file.data) for path, file in files.files.items()}

    def check(self, status: int = 0) -> Any:
        """Check it; nothing may have changed."""
        import json

        result = self.invoke("check", ROOT, *SETTINGS, "-o", "json", status=status)
        self.assertEqual({path: bytes(file.data) for path, file in self.env.files.files.items()}, self.before)
        return json.loads(result.stdout)

    def change(self, path: str, at: int, data: bytes) -> None:
        """Damage a file."""
        self.env.files.overwrite(f"{ROOT}/{path}", at, data)
        self.before[f"{ROOT}/{path}"] = bytes(self.env.files.read(f"{ROOT}/{path}"))

    def test_well(self) -> None:
        """A store of RocketMQ's that was closed cleanly is well: every record, unit and entry is looked at."""
        self.lay("store-a")
        found = self.check()
        manifest = read("store-a").manifest
        self.assertEqual(found["findings"], [])
        self.assertEqual((found["records"], found["clean"]), (len(manifest["messages"]), True))
        self.assertEqual(found["end"], 1048576 + manifest["commitLogFiles"][-1]["endOfRecords"])
        self.assertEqual(found["index_files"], len(manifest["indexFiles"]))
        self.assertIn("No problems found.", self.out("check", ROOT, *SETTINGS))
        self.assertRegex(self.out("store", "verify", ROOT, *SETTINGS), r"\nThe store is sound\.[^\n]*\n$")

    def test_progress(self) -> None:
        """The progress counts to the end of what was written, not to that of the allocated files."""
        self.lay("store-a")
        end = 1048576 + read("store-a").manifest["commitLogFiles"][-1]["endOfRecords"]
        told: list[tuple[str, int, int]] = []
        self.patch(ProgressLine, "to", lambda line, done, total, what: told.append((what, done, total)))
        self.assertEqual(self.check()["end"], end)
        self.assertEqual([one for one in told if one[0] == "log"], [("log", 0, end), ("log", end, end)])

    def test_crash(self) -> None:
        """One that was not closed has nothing that a start would not set right."""
        self.lay("store-a-crash")
        found = self.check()
        self.assertEqual({one["weight"] for one in found["findings"]}, {"repair"})
        words = self.out("store", "verify", ROOT, *SETTINGS).splitlines()[-1]
        self.assertEqual(words, "The store is sound: the next start of a broker repairs what is listed.")

    def test_record(self) -> None:
        """A flipped bit in a body is damage; what follows is checked all the same."""
        self.lay("store-a")
        message = read("store-a").manifest["messages"][100]
        at = message["physicalOffset"] + message["storeSize"] // 2
        path = f"commitlog/{at - at % 1048576:020d}"
        place = at % 1048576
        self.change(path, place, bytes([read("store-a").files[path][place] ^ 1]))
        found = self.check(65)
        self.assertEqual(found["records"], len(read("store-a").manifest["messages"]) - 1)
        (one,) = [one for one in found["findings"] if one["weight"] == "damage"]
        self.assertIn("CRC", one["what"])
        self.assertIn(f"byte {message['physicalOffset'] % 1048576}", one["where"])
        words = self.invoke("store", "verify", ROOT, *SETTINGS, status=1).stdout.splitlines()[-1]
        self.assertIn("The store is damaged", words)

    def test_unit(self) -> None:
        """A unit that leads elsewhere, has another tag, or is missing is damage."""
        self.lay("store-a")
        path = next(path for path in sorted(self.before) if "consumequeue/Orders" in path or "consumequeue/T" in path)
        path = path.removeprefix(ROOT + "/")
        self.change(path, 19, b"\x7f")
        self.assertIn("tag code", str(self.check(65)["findings"]))
        self.change(path, 7, b"\x7f")
        self.assertIn("points to", str(self.check(65)["findings"]))
        self.change(path, 0, bytes(UNIT_SIZE))
        self.assertIn("is missing in the consume queue", str(self.check(65)["findings"]))

    def test_index(self) -> None:
        """An entry without its message, and a file of another size, are told; a start makes the index anew."""
        self.lay("store-a")
        path = next(path for path in sorted(self.before) if "/index/" in path).removeprefix(ROOT + "/")
        self.change(path, 40 + INDEX_SLOTS * 4 + 20, b"\x01\x02\x03\x04")
        (one,) = self.check()["findings"]
        self.assertIn("1 of", one["what"])
        result = self.json("check", ROOT)
        self.assertEqual({one["weight"] for one in result["findings"]}, {"repair"})

    def test_missing(self) -> None:
        """Without a store there is nothing to check; a foreign file is named."""
        self.refused("check", "/nowhere", status=74)
        self.env.files.make_directories("/empty")
        self.refused("check", "/empty", status=74)
        self.lay("store-a")
        self.env.files.create(f"{ROOT}/commitlog/notes.txt", b"x")
        self.before[f"{ROOT}/commitlog/notes.txt"] = b"x"
        self.assertIn("notes.txt", str(self.check(65)["findings"]))
        self.refused("check", ROOT, "--config", "/no.conf", status=78)
