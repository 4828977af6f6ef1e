"""The commands for a store directory."""

from __future__ import annotations

import json
import posixpath
import struct
from typing import Any

from smartgo.schema.consumequeue import UNIT_SIZE
from tests.cli.case import CommandCase
from tests.golden_store import LOG_SIZE, NAMES, read

ROOT = "/store"


class StoreDirectoryCase(CommandCase):
    """Commands on a golden store in memory."""

    def lay(self, name: str, root: str = ROOT) -> None:
        """Put a golden store where a command finds it."""
        files = self.env.files
        for path, data in read(name).files.items():
            files.make_directories(posixpath.dirname(f"{root}/{path}"))
            files.create(f"{root}/{path}", data)
        self.note()

    def note(self) -> None:
        """Note what all files hold."""
        self.before = {path: bytes(file.data) for path, file in self.env.files.files.items()}

    def flip(self, path: str, at: int, root: str = ROOT) -> None:
        """Flip a bit of a file."""
        byte = self.env.files.read_at(f"{root}/{path}", at, 1)[0]
        self.env.files.overwrite(f"{root}/{path}", at, bytes([byte ^ 1]))
        self.note()

    def unchanged(self) -> None:
        """No file was changed."""
        self.assertEqual({path: bytes(file.data) for path, file in self.env.files.files.items()}, self.before)

    def lines(self, *arguments: str) -> list[Any]:
        """Return what a command writes as JSON lines."""
        return [json.loads(line) for line in self.out(*arguments, "-o", "jsonl").splitlines()]


class ListTests(StoreDirectoryCase):
    def test_files(self) -> None:
        """Files with their offsets and times, and queues with their ranges, are as the official decoder found them."""
        for name in NAMES:
            self.lay(name, f"/{name}")
            found = self.json("store", "ls", f"/{name}")
            manifest = read(name).manifest
            ends = {file["file"]: file for file in manifest["commitLogFiles"]}
            logs = [file for file in found["files"] if file["kind"] == "commitlog" and file["end"] is not None]
            for file in logs:
                self.assertEqual(file["end"], int(file["name"]) + ends[file["name"]]["endOfRecords"])
                stored = [m["storeTimestamp"] for m in manifest["messages"] if m["physicalOffset"] < file["end"]]
                self.assertEqual(file["last_ms"], stored[-1])
            keys = [file["keys"] for file in found["files"] if file["kind"] == "index"]
            self.assertEqual(keys, [file["indexCount"] - 1 for file in manifest["indexFiles"]])
            ranges = {(one["topic"], one["queue_id"]): (one["minimum"], one["end"]) for one in found["queues"]}
            expected: dict[tuple[str, int], int] = {}
            for message in manifest["messages"]:
                key = (message["topic"], message["queueId"])
                expected[key] = max(expected.get(key, 0), message["queueOffset"] + 1)
            self.assertEqual(ranges, {key: (0, end) for key, end in expected.items()})
            self.assertEqual(found["clean"], name == "store-a")
        self.unchanged()

    def test_people(self) -> None:
        """People see the first rows, how many more there are, and a sentence about what looks wrong."""
        self.lay("store-a")
        for name in ("ops", "timer"):
            self.env.files.make_directories(f"{ROOT}/{name}")
        words = self.out("store", "ls", ROOT)
        self.assertIn("and 11 more queues", words)
        self.assertIn("Nothing looks wrong", words)
        self.assertNotIn("more queues", self.out("store", "ls", ROOT, "--all"))

    def test_problems(self) -> None:
        """A short file, an unreadable table, a foreign name and a damaged list of regions are told."""
        self.lay("store-a")
        files = self.env.files
        log = f"{ROOT}/commitlog/{LOG_SIZE:020d}"
        del files.files[log].data[-10:]
        files.files[f"{ROOT}/config/topics.json"].data[:] = b"{"
        files.create(f"{ROOT}/notes", b"")
        files.make_directories(f"{ROOT}/quarantine")
        files.create(f"{ROOT}/quarantine/regions.json", b"nothing")
        words = self.out("store", "ls", ROOT)
        for one in (log, "topics.json is unreadable", "notes is not part of a store", "regions.json: "):
            self.assertIn(one, words)

    def test_in_use(self) -> None:
        """A store that a broker has locked can be read, and it is said."""
        self.lay("store-a")
        lock = self.env.files.lock_directory(ROOT)
        self.note()
        result = self.invoke("store", "ls", ROOT)
        self.assertIn("is in use by process 4711", result.stderr)
        self.assertIn("by process 4711", result.stdout)
        self.assertIn("is in use", self.invoke("store", "verify", ROOT).stderr)
        self.unchanged()
        lock.release()

    def test_missing(self) -> None:
        """Where there is no store each command says so."""
        self.env.files.make_directories("/empty")
        for command in (("ls",), ("verify",), ("dump",)):
            for root in ("/nowhere", "/empty"):
                self.refused("store", *command, root, status=74)
        self.refused("store", "hexdump", "/empty", "checkpoint", status=74)


class VerifyTests(StoreDirectoryCase):
    def verify(self, status: int = 0) -> Any:
        """Check the store."""
        result = self.invoke("store", "verify", ROOT, "--json", status=status)
        self.unchanged()
        return json.loads(result.stdout)

    def test_golden(self) -> None:
        """Both stores of a RocketMQ broker are sound, the one that was not closed too; all of them is read."""
        for name in NAMES:
            self.lay(name)
            found = self.verify()
            manifest = read(name).manifest
            self.assertEqual([one for one in found["findings"] if one["weight"] != "repair"], [])
            self.assertEqual(len(found["findings"]), int(name == "store-a-crash"))
            self.assertEqual(found["records"], len(manifest["messages"]))
            self.assertEqual(found["units"], sum(len(queue["units"]) for queue in manifest["consumeQueues"]))
            self.assertEqual(found["index_entries"], sum(file["indexCount"] - 1 for file in manifest["indexFiles"]))
            self.env.files.remove_tree(ROOT)

    def test_log(self) -> None:
        """Damage of a record, and a log file that is short or missing, end with 1."""
        self.lay("store-a")
        at = read("store-a").manifest["messages"][100]["physicalOffset"]
        self.flip(f"commitlog/{0:020d}", at + 90)
        self.assertIn("body CRC", str(self.verify(1)["findings"]))
        self.env.files.remove(f"{ROOT}/commitlog/{0:020d}")
        self.note()
        self.assertEqual(self.verify(0)["begin"], LOG_SIZE)  # as if it had been too old
        self.lay("store-a", "/other")
        del self.env.files.files[f"/other/commitlog/{0:020d}"].data[-5000:]
        words = self.invoke("store", "verify", "/other", status=1).stdout
        self.assertIn("the CommitLog's files must have", words)
        self.assertIn("records", words)

    def test_units(self) -> None:
        """A unit without a record of its own is found, though every record has its unit."""
        self.lay("store-a")
        path = "consumequeue/Plain/0/" + f"{2000:020d}"
        data = self.env.files.read(f"{ROOT}/{path}")
        used = next(at for at in range(0, 2000, UNIT_SIZE) if not any(data[at : at + UNIT_SIZE]))
        other = self.env.files.read_at(f"{ROOT}/consumequeue/Plain/1/{2000:020d}", used - UNIT_SIZE, UNIT_SIZE)
        last = struct.unpack_from(">q", data, used - UNIT_SIZE)[0]
        offset = max(struct.unpack(">qiq", other)[0], last + 1)
        self.env.files.overwrite(f"{ROOT}/{path}", used, struct.pack(">qiq", offset, 200, 0))
        self.note()
        self.assertIn("where its message is not", str(self.verify(1)["findings"]))

    def test_index(self) -> None:
        """A slot that leads elsewhere, and a header that counts wrongly, are found; a start makes the index anew."""
        self.lay("store-a")
        name = next(iter(sorted(path for path in self.before if "/index/" in path)))
        path = name.removeprefix(ROOT + "/")
        self.flip(path, 35)
        self.assertIn("slots are used", str(self.verify()["findings"]))
        self.flip(path, 35)
        self.flip(path, 43)
        self.assertIn("slots lead to", str(self.verify()["findings"]))

    def test_tables(self) -> None:
        """A table that cannot be read is damage, unless its previous content can be."""
        self.lay("store-a")
        files = self.env.files
        files.files[f"{ROOT}/config/consumerOffset.json"].data[:] = bytes(20)
        self.note()
        self.assertEqual(self.verify(0)["findings"][0]["weight"], "repair")
        for damaged in (b"[1]", b'{"offsetTable":'):
            files.files[f"{ROOT}/config/consumerOffset.json.bak"].data[:] = damaged
            self.note()
            self.assertEqual(self.verify(1)["findings"][0]["weight"], "damage")

    def test_regions(self) -> None:
        """What is listed as damaged is damage, which brokers know and skip."""
        self.lay("store-a")
        message = read("store-a").manifest["messages"][100]
        at, size = message["physicalOffset"], message["storeSize"]
        self.flip(f"commitlog/{0:020d}", at + 90)
        files = self.env.files
        files.make_directories(f"{ROOT}/quarantine")
        regions = [{"offset": at, "length": size, "reason": "a flipped bit"}]
        files.create(f"{ROOT}/quarantine/regions.json", json.dumps(regions).encode())
        self.note()
        found = self.verify(1)
        (finding,) = found["findings"]
        self.assertEqual(finding["weight"], "damage")
        self.assertEqual(finding["what"], f"{size} B are damaged (a flipped bit); brokers know that, and skip them")
        self.invoke("check", ROOT, status=65)
        self.assertEqual(found["records"], len(read("store-a").manifest["messages"]) - 1)


class DumpTests(StoreDirectoryCase):
    def setUp(self) -> None:
        """A store."""
        super().setUp()
        self.lay("store-a")
        self.messages = read("store-a").manifest["messages"]

    def test_records(self) -> None:
        """All records are printed in the order of the log; each condition chooses among them."""
        found = self.lines("store", "dump", ROOT)
        self.assertEqual([one["physical_offset"] for one in found], [one["physicalOffset"] for one in self.messages])
        middle = self.messages[300]
        cases = {
            ("--topic", "Order"): lambda one: one["topic"] == "Order",
            ("--topic", "Order", "--queue", "1"): lambda one: (one["topic"], one["queueId"]) == ("Order", 1),
            ("--topic", "Plain", "--from-offset", "3", "--to-offset", "5"): lambda one: (
                one["topic"] == "Plain" and 3 <= one["queueOffset"] <= 5
            ),
            ("--from-physical", str(middle["physicalOffset"])): lambda one: (
                one["physicalOffset"] >= middle["physicalOffset"]
            ),
            ("--from-physical", str(LOG_SIZE)): lambda one: one["physicalOffset"] >= LOG_SIZE,
            ("--until-physical", str(middle["physicalOffset"])): lambda one: (
                one["physicalOffset"] < middle["physicalOffset"]
            ),
            ("--tag", "TagC"): lambda one: one["properties"].get("TAGS") == "TagC",
            ("--key", "shared2"): lambda one: "shared2" in one["properties"].get("KEYS", "").split(" "),
            ("--key", middle["properties"]["UNIQ_KEY"]): lambda one: (
                one["properties"].get("UNIQ_KEY") == middle["properties"]["UNIQ_KEY"]
            ),
        }
        for options, wanted in cases.items():
            found = [one["physical_offset"] for one in self.lines("store", "dump", ROOT, *options)]
            self.assertEqual(found, [one["physicalOffset"] for one in self.messages if wanted(one)], options)
            self.assertTrue(found)
        self.assertEqual(len(self.json("store", "dump", ROOT, "-n", "7")), 7)
        self.assertEqual(self.json("store", "dump", ROOT, "--topic", "None"), [])
        self.assertIn("Nothing found", self.out("store", "dump", ROOT, "--topic", "None"))
        self.unchanged()

    def test_time(self) -> None:
        """Records are chosen by the time at which they were stored."""
        stamp = self.messages[200]["storeTimestamp"]
        found = self.lines("store", "dump", ROOT, "--from", "2000-01-01T00:00Z", "--until", "2000-01-02T00:00Z")
        self.assertEqual(found, [])
        found = self.lines("store", "dump", ROOT, "--from", "2000-01-01T00:00Z")
        self.assertEqual(found[200]["store_timestamp"], stamp)

    def test_damage(self) -> None:
        """Damage is printed where it lies."""
        message = self.messages[10]
        self.flip(f"commitlog/{0:020d}", message["physicalOffset"] + 90)
        found = self.lines("store", "dump", ROOT, "-n", "12")
        self.assertEqual([one["kind"] for one in found], ["record"] * 10 + ["damage", "record"])
        self.assertEqual(found[10]["size"], message["storeSize"])
        self.assertIn("DAMAGED", self.out("store", "dump", ROOT, "-n", "12"))

    def test_units(self) -> None:
        """Units are those that the manifest lists."""
        for queue in read("store-a").manifest["consumeQueues"]:
            found = self.lines(
                "store", "dump", ROOT, "units", "--topic", queue["topic"], "--queue", str(queue["queueId"])
            )
            units = [[one["physical_offset"], one["size"], one["tag_hash"]] for one in found]
            self.assertEqual(units, queue["units"])

    def test_rest(self) -> None:
        """Index entries lead to their messages; checkpoints and tables are printed whole."""
        offsets = {one["physicalOffset"] for one in self.messages}
        found = self.lines("store", "dump", ROOT, "index")
        entries = [one for one in found if one["kind"] == "entry"]
        self.assertLessEqual({one["physical_offset"] for one in entries}, offsets)
        self.assertEqual(len(found) - len(entries), len(read("store-a").manifest["indexFiles"]))
        (found,) = self.lines("store", "dump", ROOT, "checkpoint")
        self.assertEqual(found["physical_ms"], read("store-a").manifest["checkpoint"]["physicMsgTimestamp"])
        tables = {one["file"]: one["content"] for one in self.lines("store", "dump", ROOT, "tables")}
        self.assertEqual(tables["consumerOffset.json"]["offsetTable"]["Order@OrderGroup"], {"0": 18, "1": 12})


class HexdumpTests(StoreDirectoryCase):
    def setUp(self) -> None:
        """A store."""
        super().setUp()
        self.lay("store-a")

    def fields(self, *arguments: str) -> dict[str, Any]:
        """The fields of the one structure that is printed, by name; with the structure itself as C{*}."""
        (found,) = self.json("store", "hexdump", ROOT, *arguments)
        return {"*": found, **{field["name"]: field["value"] for field in found["fields"]}}

    def test_record(self) -> None:
        """Every byte of a record has the name of its field."""
        message = read("store-a").manifest["messages"][7]
        found = self.fields("record", str(message["physicalOffset"]))
        self.assertEqual(found["topic"], message["topic"])
        self.assertEqual(found["queue_offset"], str(message["queueOffset"]))
        at = 0
        for field in found["*"]["fields"]:
            self.assertEqual(field["at"], at)
            at += field["size"]
        self.assertEqual((at, found["*"]["fault"]), (message["storeSize"], None))

    def test_width(self) -> None:
        """A line of the table is no wider than a wide terminal; long fields are cut, and say so."""
        message = max(read("store-a").manifest["messages"], key=lambda one: one["storeSize"])
        words = self.out("store", "hexdump", ROOT, "record", str(message["physicalOffset"]))
        self.assertIn(" ...", words)
        self.assertLess(max(map(len, words.splitlines()[1:])), 150)

    def test_not_valid(self) -> None:
        """What is no record is shown as far as it goes, with what is wrong; a blank is known as one."""
        message = read("store-a").manifest["messages"][7]
        self.flip(f"commitlog/{0:020d}", message["physicalOffset"] + 90)
        found = self.fields("record", str(message["physicalOffset"]))["*"]
        self.assertEqual((found["structure"], found["fault"]), ("record", "body CRC differs"))
        self.assertEqual(self.fields("record", "5")["*"]["structure"], "head of a record")
        end = read("store-a").manifest["commitLogFiles"][0]["endOfRecords"]
        found = self.fields("record", str(end))
        self.assertEqual((found["*"]["structure"], found["size"]), ("blank", str(LOG_SIZE - end)))
        end = read("store-a").manifest["commitLogFiles"][1]["endOfRecords"]
        self.assertEqual(self.fields("record", str(LOG_SIZE + end))["*"]["fault"], "nothing was written here")
        self.assertIn("not valid: ", self.out("store", "hexdump", ROOT, "record", "5"))
        self.refused("store", "hexdump", ROOT, "record", str(LOG_SIZE * 9), status=74)

    def test_others(self) -> None:
        """A unit, the pieces of an index file, and the checkpoint."""
        manifest = read("store-a").manifest
        queue = manifest["consumeQueues"][0]
        found = self.fields("unit", queue["topic"], str(queue["queueId"]), "0")
        self.assertEqual(
            [found[name] for name in ("commitlog_offset", "size", "tag_hash")], list(map(str, queue["units"][0]))
        )
        index = manifest["indexFiles"][0]
        name = next(path for path in read("store-a").files if path.startswith("index/")).removeprefix("index/")
        self.assertEqual(self.fields("index", name)["index_count"], str(index["indexCount"]))
        entry = self.fields("index", name, "entry", "1")
        slot = int(entry["key_hash"]) % 100
        self.assertGreater(int(self.fields("index", name, "slot", str(slot))["newest"]), 0)
        stamp = manifest["checkpoint"]["physicMsgTimestamp"]
        self.assertTrue(self.fields("checkpoint")["physical_ms"].startswith(str(stamp)))

    def test_usage(self) -> None:
        """A place that does not fit the structure is refused with the form to write."""
        for words in (("record",), ("unit", "A", "0"), ("index", "x", "thing", "1"), ("checkpoint", "1")):
            self.assertIn("write: ", self.invoke("store", "hexdump", ROOT, *words, status=2).stderr)
        self.refused("store", "hexdump", ROOT, "record", "x", status=2)
        self.refused("store", "hexdump", ROOT, "unit", "None", "0", "0", status=74)
        self.refused("store", "hexdump", ROOT, "index", "20300101000000000", status=74)
