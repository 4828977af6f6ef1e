"""The audit log: what it has of changes, and of attempts at them (reliability X13)."""

from __future__ import annotations

from smartgo.ops.security.audit import COMMON, COMMON_SECONDS, KEPT, SIZE, AuditEntry, AuditLog, shown
from smartgo.ops.security.principals import ADMIN, READ
from tests.fakes import FakeEnvironment
from tests.ops.security.case import TOPIC, SecurityCase


class AuditTests(SecurityCase):
    """What was changed, by whom, from where, and with what result."""

    def test_entries(self) -> None:
        """Each change is noted, done or not, with who asked; looking is not."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        self.front.ask("POST", "/topics", TOPIC, token=boss)
        self.front.ask("DELETE", "/topics/Nothing", token=boss)
        self.front.ask("POST", "/topics", TOPIC, token=reader)
        self.front.ask("GET", "/topics", token=boss)
        items = self.front.get("/audit", token=boss)["items"]
        self.assertEqual(
            [(one["who"], one["action"], one["status"], one["error"]) for one in items],
            [
                ("reader", "POST /topics", 403, "scope-missing"),
                ("boss", "DELETE /topics/{name}", 404, "topic-not-found"),
                ("boss", "POST /topics", 200 + 1, ""),
            ],
        )
        self.assertEqual(items[1]["subject"], {"name": "Nothing"})
        self.assertEqual((items[2]["address"], items[2]["detail"]["body"]["name"]), ("127.0.0.1", "Orders"))
        self.assertEqual(self.front.get("/audit?failed=false", token=boss)["total"], 1)

    def test_sorted(self) -> None:
        """Entries are sorted by time, by who it was, and by status: by what the console has at the heads of columns."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        self.front.ask("POST", "/topics", TOPIC, token=reader)
        self.front.ask("POST", "/topics", TOPIC, token=boss)
        for sort, wanted in (
            ("atMs", ["reader", "boss"]),
            ("who", ["boss", "reader"]),
            ("-status", ["reader", "boss"]),
        ):
            items = self.front.get(f"/audit?sort={sort}", token=boss)["items"]
            self.assertEqual([one["who"] for one in items], wanted, sort)

    def test_flood(self) -> None:
        """Whoever may do nothing cannot push out what was done; how many entries are missing is told."""
        boss, reader = self.token("boss", ADMIN), self.token("reader", READ)
        for token in ("", reader):
            for _ in range(COMMON + 5):
                self.front.ask("DELETE", "/topics/Nothing", token=token)
        self.front.ask("DELETE", "/topics/Nothing", token=boss)
        self.assertEqual(self.front.get("/audit", token=boss)["total"], 2 * COMMON + 1)
        self.front.env.clock.advance(COMMON_SECONDS)
        self.front.ask("DELETE", "/topics/Nothing")
        self.front.ask("DELETE", "/topics/Nothing", token=reader)
        items = self.front.get("/audit?limit=200", token=boss)["items"]
        self.assertEqual(
            [(one["who"], one["detail"]) for one in items[:2]], [("reader", {}), ("anonymous", {"leftOut": 5})]
        )
        self.assertEqual(sum(one["detail"].get("leftOut", 0) for one in items), 10)

    def test_before(self) -> None:
        """What was there before stands beside what came after (X7)."""
        boss = self.token("boss", ADMIN)
        self.front.ask("PUT", "/kv/N/k", {"value": "old"}, token=boss)
        self.front.ask("PUT", "/kv/N/k", {"value": "new"}, token=boss)
        newest = self.front.get("/audit", token=boss)["items"][0]
        self.assertEqual((newest["detail"]["before"], newest["detail"]["body"]["value"]), ("old", "new"))

    def test_secrets(self) -> None:
        """No token, code or password stands there."""
        boss = self.token("boss", ADMIN)
        self.front.ask("POST", "/session", {"token": boss})
        self.front.ask("POST", "/session", {"code": "hidden-word"})
        self.front.cluster.pump()
        written = bytes(self.front.env.files.files["/store/ops/audit.jsonl"].data)
        self.assertIn(b"POST /session", written)
        self.assertNotIn(boss.encode(), written)
        self.assertNotIn(b"hidden-word", written)

    def test_again(self) -> None:
        """The newest entries are there again after a restart; a broken line is left out."""
        self.front.ask("POST", "/topics", TOPIC, token=self.token("boss", ADMIN))
        self.front.cluster.pump()
        self.front.env.files.append("/store/ops/audit.jsonl", b"{broken\n")
        again = AuditLog(self.front.env, "/store/ops/audit.jsonl")
        again.load()
        self.assertEqual([one.action for one in again.entries()], ["POST /topics"])

    def test_bounded(self) -> None:
        """Two files at most are kept, each with an end, and so many entries in memory."""
        env = FakeEnvironment()
        env.files.make_directories("/ops")
        log = AuditLog(env, "/ops/audit.jsonl")
        entry = AuditEntry(1, "1", "a" * 4000, "", "", {}, {}, 200)
        for _ in range(3 * KEPT):
            log.add(entry)
        sizes = {path: len(file.data) for path, file in env.files.files.items()}
        self.assertEqual(set(sizes), {"/ops/audit.jsonl", "/ops/audit.jsonl.1"})
        self.assertLessEqual(max(sizes.values()), SIZE)
        self.assertEqual(len(log.entries()), KEPT)

    def test_unwritable(self) -> None:
        """A disk that is full does not keep anybody from changing anything; the log says that it is."""
        env = FakeEnvironment()
        log = AuditLog(env, "/nowhere/audit.jsonl")
        log.add(AuditEntry(1, "1", "boss", "", "", {}, {}, 200))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.assertEqual(len(log.entries()), 1)

    def test_cut(self) -> None:
        """Long values and names are cut, and what is secret by its name is hidden."""
        found = shown({"apiKey": "x", "text": "a" * 1000, "list": list(range(100)), "b" * 1000 + "token": "y"})
        self.assertEqual({name: one for name, one in found.items() if name[0] == "b"}, {
            "b" * 512 + "… (1005 characters)": "***",
        })  # fmt: skip
        self.assertEqual(found["apiKey"], "***")
        self.assertLess(len(found["text"]), 600)
        self.assertEqual(len(found["list"]), 32)
