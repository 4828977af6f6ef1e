"""Tests of L{smartgo.auth.rulefiles}."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.plainacl import BadAccessFile
from smartgo.auth.rulefiles import RuleFiles
from tests.fakes import FakeEnvironment


def account(name: str, admin: bool = False) -> str:
    """Return a file with one account."""
    return f"accounts:\n- {{accessKey: {name}, secretKey: 12345678, admin: {str(admin).lower()}}}\n"


class RuleFilesTests(SynchronousTestCase):
    """The files of one directory."""

    def setUp(self) -> None:
        self.files = FakeEnvironment().files
        self.rules = RuleFiles(self.files, "/conf")

    def lay(self, path: str, text: str | bytes) -> None:
        """Write a file."""
        directory = path.rpartition("/")[0]
        self.files.make_directories(directory)
        self.files.replace(path, text if isinstance(text, bytes) else text.encode(), backup=False)

    def test_order(self) -> None:
        """Files below acl come first, by name, with those below them; plain_acl.yml last; the first account counts."""
        self.lay("/conf/plain_acl.yml", account("somebody", True) + "globalWhiteRemoteAddresses: [10.0.0.1]\n")
        self.lay("/conf/acl/b.yml", account("somebody"))
        self.lay("/conf/acl/a/c.yaml", account("another") + "globalWhiteRemoteAddresses: [10.0.0.2]\n")
        self.lay("/conf/acl/a/plain_acl.yml.bak", "no: yaml: at all")
        self.assertEqual(self.rules.paths(), ["/conf/acl/a/c.yaml", "/conf/acl/b.yml", "/conf/plain_acl.yml"])
        rules = self.rules.read()
        self.assertEqual(sorted(rules.accounts), ["another", "somebody"])
        self.assertFalse(rules.accounts["somebody"].rights.admin)
        self.assertEqual(
            [rules.needs_no_signature(rules.accounts["somebody"], f"10.0.0.{n}") for n in (1, 2, 3)],
            ["globalWhiteRemoteAddresses", "globalWhiteRemoteAddresses", ""],
        )
        self.assertEqual(
            rules.notes,
            ("/conf/plain_acl.yml: account somebody: another file, which is read before, has this accessKey",),
        )

    def test_bad(self) -> None:
        """A file that cannot be used is named; no file at all is an error too."""
        said = str(self.assertRaises(BadAccessFile, self.rules.read))
        self.assertEqual(said, "there is no access control file: neither /conf/plain_acl.yml nor a file below acl")
        self.lay("/conf/plain_acl.yml", account("somebody"))
        for text, reason in ((b"\xff", "it is no UTF-8"), (b"- a", "the access control file has to be a mapping")):
            self.lay("/conf/acl/x.yml", text)
            said = str(self.assertRaises(BadAccessFile, self.rules.read))
            self.assertTrue(said.startswith(f"/conf/acl/x.yml: {reason}"), said)

    def test_stamp(self) -> None:
        """The stamp changes with each file: its size, a new one, one that is gone."""
        self.lay("/conf/plain_acl.yml", account("somebody"))
        seen = [self.rules.stamp()]
        self.lay("/conf/plain_acl.yml", account("another"))
        seen.append(self.rules.stamp())
        self.lay("/conf/acl/x.yml", account("somebody"))
        seen.append(self.rules.stamp())
        self.files.remove("/conf/plain_acl.yml")
        seen.append(self.rules.stamp())
        self.assertEqual(len(set(seen)), 4)
        self.assertEqual(self.rules.stamp(), seen[-1])

    def test_certificate_twice(self) -> None:
        """Of two accounts with one certificate the first counts, and a note says so; a user may name one, too."""
        line = account("somebody").rstrip("}\n").replace("- {", "- {certificate: CN=orders, ")
        self.lay("/conf/plain_acl.yml", f"{line}}}\n")
        users = [{"username": "alice", "password": "secret", "certificate": "cn=orders"}]
        self.lay("/conf/users.json", json.dumps({"users": users}))
        rules = self.rules.read()
        found = rules.of_certificate(["CN=orders"])
        assert found is not None
        self.assertEqual(found.name, "somebody")
        self.assertEqual(rules.notes, ("account alice: account somebody names certificate CN=orders, and counts",))
        users[0]["certificate"] = "orders"
        self.lay("/conf/users.json", json.dumps({"users": users}))
        self.assertIn("user alice: certificate: ", str(self.assertRaises(BadAccessFile, self.rules.read)))
