"""The export and the comparison of store directories."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
from typing import Any
from unittest.mock import patch

from smartgo.store.offline import export
from tests.cli.commands.test_store import ROOT, StoreDirectoryCase
from tests.golden_store import LOG_SIZE, NAMES, read

try:
    from pyarrow import parquet
except ImportError:
    parquet = None


class ExportTests(StoreDirectoryCase):
    def setUp(self) -> None:
        """Room on the disk."""
        super().setUp()
        self.manifest = read("store-a").manifest

    def export(self, form: str, *options: str) -> dict[str, Any]:
        """Export the store; the command's summary."""
        found: dict[str, Any] = self.json("store", "export", ROOT, form, "--file", f"/out.{form}", *options)
        return found

    def test_golden(self) -> None:
        """Counts and hashes of bodies are the official decoder's, in both formats, for both stores."""
        if parquet is None:
            raise self.skipTest("pyarrow is not installed")
        for name in NAMES:
            self.lay(name)
            messages = read(name).manifest["messages"]
            lines, table = self.export("jsonl"), self.export("parquet")
            self.assertEqual((lines["records"], lines["sha256"]), (table["records"], table["sha256"]))
            self.assertEqual(lines["records"], len(messages))
            rows = parquet.read_table(io.BytesIO(self.env.files.read("/out.parquet"))).to_pylist()
            documents = [json.loads(line) for line in self.env.files.read("/out.jsonl").splitlines()]
            expected = [(one["physicalOffset"], one["storedBodySha256"]) for one in messages]
            found = [(one["physical_offset"], hashlib.sha256(one["body"]).hexdigest()) for one in rows]
            self.assertEqual(found, expected)
            bodies = [
                base64.b64decode(one["body_base64"]) if one["body"] is None else one["body"].encode()
                for one in documents
            ]
            self.assertEqual([hashlib.sha256(body).hexdigest() for body in bodies], [one for _, one in expected])
            digest = hashlib.sha256()
            for row in rows:
                digest.update(row["physical_offset"].to_bytes(8, "big") + len(row["body"]).to_bytes(8, "big"))
                digest.update(row["body"])
            self.assertEqual(digest.hexdigest(), table["sha256"])
            self.env.files.remove_tree(ROOT)
            for form in ("jsonl", "parquet"):
                self.env.files.remove(f"/out.{form}")

    def test_columns(self) -> None:
        """Every column holds what the manifest says."""
        if parquet is None:
            raise self.skipTest("pyarrow is not installed")
        self.lay("store-a")
        self.export("parquet")
        rows = parquet.read_table(io.BytesIO(self.env.files.read("/out.parquet"))).to_pylist()
        for row, one in zip(rows, self.manifest["messages"], strict=True):
            self.assertEqual(dict(row["properties"]), one["properties"])
            self.assertEqual(round(row["store_timestamp"].timestamp() * 1000), one["storeTimestamp"])
            self.assertEqual(
                (row["topic"], row["queue_id"], row["queue_offset"], row["size"], row["message_id"], row["born_host"]),
                (one["topic"], one["queueId"], one["queueOffset"], one["storeSize"], one["msgId"], one["bornHost"]),
            )

    def test_decompress(self) -> None:
        """Bodies are written as they are stored, or decompressed."""
        self.lay("store-a")
        self.export("jsonl", "--decompress")
        found = [json.loads(line) for line in self.env.files.read("/out.jsonl").splitlines()]
        for row, one in zip(found, self.manifest["messages"], strict=True):
            body = base64.b64decode(row["body_base64"]) if row["body"] is None else row["body"].encode()
            self.assertEqual(hashlib.sha256(body).hexdigest(), one["bodySha256"])

    def test_filter(self) -> None:
        """Records are chosen as for dump; damage is left out and counted."""
        self.lay("store-a")
        message = next(one for one in self.manifest["messages"] if one["topic"] == "Plain")
        self.flip(f"commitlog/{0:020d}", message["physicalOffset"] + 88)
        found = self.export("jsonl", "--topic", "Plain")
        count = sum(one["topic"] == "Plain" for one in self.manifest["messages"]) - 1
        self.assertEqual((found["records"], found["damaged"]), (count, 1))
        self.assertEqual(found["damaged_bytes"], message["storeSize"])
        self.env.files.remove("/out.jsonl")
        words = self.out("store", "export", ROOT, "jsonl", "--file", "/out.jsonl")
        self.assertIn("left out: 1 damaged range", words)

    def test_refused(self) -> None:
        """A file that exists is not overwritten; without pyarrow a sentence says what to install."""
        self.lay("store-a")
        self.env.files.create("/there", b"x")
        self.refused("store", "export", ROOT, "jsonl", "--file", "/there", status=1)
        self.assertEqual(self.env.files.read("/there"), b"x")
        with patch.dict(sys.modules, {"pyarrow": None}):
            words = self.refused("store", "export", ROOT, "parquet", "--file", "/new", status=78)
        self.assertIn("pip install", words)
        self.assertFalse(self.env.files.exists("/new"))

    def test_portions(self) -> None:
        """Many rows are written in portions."""
        self.lay("store-a")
        whole = self.export("jsonl")
        content = self.env.files.read("/out.jsonl")
        self.env.files.remove("/out.jsonl")
        self.patch(export, "_ROWS", 7)
        self.assertEqual(self.export("jsonl")["sha256"], whole["sha256"])
        self.assertEqual(self.env.files.read("/out.jsonl"), content)


class DiffTests(StoreDirectoryCase):
    def setUp(self) -> None:
        """Two copies of a store."""
        super().setUp()
        self.lay("store-a")
        self.lay("store-a", "/other")
        self.messages = read("store-a").manifest["messages"]

    def diff(self, status: int = 0) -> Any:
        """Compare them."""
        return json.loads(self.invoke("store", "diff", ROOT, "/other", "-o", "json", status=status).stdout)

    def test_equal(self) -> None:
        """Copies are equal; so is one that ends earlier, or begins later."""
        found = self.diff()
        self.assertEqual((found["equal"], found["different"]), (len(self.messages), 0))
        last = self.messages[-1]
        path = f"/other/commitlog/{LOG_SIZE:020d}"
        at = last["physicalOffset"] - LOG_SIZE
        self.env.files.overwrite(path, at, bytes(last["storeSize"]))
        found = self.diff()
        self.assertEqual((found["equal"], found["after"]), (len(self.messages) - 1, 1))
        self.env.files.remove(f"{ROOT}/commitlog/{0:020d}")
        found = self.diff()
        self.assertEqual(found["before"], read("store-a").manifest["commitLogFiles"][0]["messages"])
        self.assertIn("only in one, before", self.out("store", "diff", ROOT, "/other"))

    def test_different(self) -> None:
        """A record with another field, and a damaged one, are told by their offsets, with what differs."""
        first, second = self.messages[20], self.messages[40]
        self.flip(f"commitlog/{0:020d}", first["physicalOffset"] + 19)
        self.flip(f"commitlog/{0:020d}", second["physicalOffset"] + 90, "/other")
        found = self.diff(1)
        self.assertEqual(
            [(one["physical_offset"], one["what"], one["fields"]) for one in found["differences"]],
            [(first["physicalOffset"], "differs", ["flag"]), (second["physicalOffset"], "damaged in second", [])],
        )
        result = self.invoke("store", "diff", ROOT, "/other", status=1)
        self.assertIn("2 differences", result.stderr)


class RetentionTests(StoreDirectoryCase):
    def test_expired(self) -> None:
        """Old files would go, but not the one that is written to; nothing is removed."""
        self.lay("store-a")
        found = self.json("store", "retention", ROOT, "--dry-run")
        self.assertEqual(found["files"], [])
        self.env.clock.advance(80 * 3600)
        found = self.json("store", "retention", ROOT, "--dry-run")
        self.assertEqual([(one["file"], one["reason"]) for one in found["files"]], [(f"{0:020d}", "expired")])
        self.assertIn("fileReservedTime", self.out("store", "retention", ROOT, "--dry-run"))
        found = self.json("store", "retention", ROOT, "--dry-run", "--set", "fileReservedTime=100")
        self.assertEqual(found["files"], [])
        self.assertIn("--dry-run is required", self.invoke("store", "retention", ROOT, status=2).stderr)
        self.unchanged()
