"""Tests of L{smartgo.auth.ruleediting}."""

from __future__ import annotations

import yaml
from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.plainacl import BadAccessFile
from smartgo.auth.ruleediting import AccountChange, FileVersion, RuleEditor
from smartgo.auth.rulefiles import RuleFiles
from smartgo.schema.bodies.auth import UserInfo
from tests.fakes import FakeEnvironment

MAIN = """
# a comment
unknown: kept
globalWhiteRemoteAddresses: [10.0.0.1]
accounts:
- {accessKey: an-admin, secretKey: admin-secret, admin: true, note: kept}
"""
MORE = "accounts: [{accessKey: 12345678, secretKey: 87654321, topicPerms: [orders=PUB]}]"


class RuleEditorTests(SynchronousTestCase):
    """Changes of two files."""

    def setUp(self) -> None:
        env = FakeEnvironment()
        self.files = env.files
        self.files.make_directories("/conf/acl")
        self.files.create("/conf/plain_acl.yml", MAIN.encode())
        self.files.create("/conf/acl/more.yml", MORE.encode())
        self.rules = RuleFiles(self.files, "/conf")
        self.editor = RuleEditor(self.files, self.rules, lambda: 1234)

    def content(self, name: str) -> object:
        """Return what a file holds now, but for its version."""
        content = yaml.safe_load(self.files.read(f"/conf/{name}"))
        content.pop("dataVersion", None)
        return content

    def test_update(self) -> None:
        """An account is changed where it is; what is not given, and what nobody knows, stays."""
        before = self.content("plain_acl.yml")
        self.editor.update(AccountChange("12345678", "", admin=False, topics=("orders=SUB", "x=DENY")))
        account = {"accessKey": "12345678", "secretKey": 87654321, "topicPerms": ["orders=SUB", "x=DENY"]}
        self.assertEqual(self.content("acl/more.yml"), {"accounts": [{**account, "admin": False}]})
        self.assertEqual(self.content("plain_acl.yml"), before)
        self.editor.update(AccountChange("an-admin", "other-secret", white_address="10.0.0.9"))
        (found,) = yaml.safe_load(self.files.read("/conf/plain_acl.yml"))["accounts"]
        self.assertEqual((found["secretKey"], found["note"], found["admin"]), ("other-secret", "kept", True))
        self.assertEqual(yaml.safe_load(self.files.read("/conf/plain_acl.yml"))["unknown"], "kept")

    def test_create(self) -> None:
        """A new account goes to plain_acl.yml, which is made where it is not there."""
        self.files.remove("/conf/plain_acl.yml")
        self.editor.update(AccountChange("newcomer", "new-secret", groups=("g=SUB",), default_topic="PUB"))
        _, rules = self.editor.read()
        self.assertEqual(sorted(rules.accounts), ["12345678", "newcomer"])
        self.assertTrue(rules.accounts["newcomer"].rights.publishes())
        self.assertEqual(self.editor.versions()["plain_acl.yml"], FileVersion(1, 1234))

    def test_user(self) -> None:
        """No account is made in the place of a user of RocketMQ 5, be it disabled."""
        self.editor.users(True).create_user(UserInfo("superuser", "a-secret", "Super", "disable"))
        before = self.files.read("/conf/plain_acl.yml")
        self.assertRaises(BadAccessFile, self.editor.update, AccountChange("superuser", "another-secret", admin=True))
        self.assertEqual(self.files.read("/conf/plain_acl.yml"), before)

    def test_refused(self) -> None:
        """A change that makes no valid account leaves the file as it was, and does not show its secret."""
        before = self.files.read("/conf/plain_acl.yml")
        for change in (
            AccountChange("newcomer", "short"),
            AccountChange("newcomer", ""),
            AccountChange("newcomer", "new-secret", topics=("orders",)),
            AccountChange("newcomer", "new-secret", white_address="*"),
        ):
            said = str(self.assertRaises(BadAccessFile, self.editor.update, change))
            self.assertNotIn("secret-", said)
            self.assertNotIn("new-secret", said)
        self.assertRaises(BadAccessFile, self.editor.set_white_addresses, ["*.*.*.*"])
        self.assertRaises(BadAccessFile, self.editor.set_white_addresses, [], "/etc/passwd")
        self.assertEqual(self.files.read("/conf/plain_acl.yml"), before)

    def test_delete_everywhere(self) -> None:
        """An account is deleted from all files: of two with one key the second would count."""
        self.files.create("/conf/acl/other.yml", b"accounts: [{accessKey: 12345678, secretKey: 87654321, admin: true}]")
        self.assertTrue(self.editor.delete("12345678"))
        self.assertEqual(sorted(self.editor.read()[1].accounts), ["an-admin"])

    def test_another_file_unusable(self) -> None:
        """Nothing is written where another file cannot be used: the change would come into force with its repair."""
        self.files.create("/conf/acl/other.yml", b"accounts: [{accessKey: 12345679, secretKey: short}]")
        before = self.content("plain_acl.yml")
        change = AccountChange("newcomer", "new-secret", admin=True)
        error = self.assertRaises(BadAccessFile, self.editor.update, change)
        self.assertIn("/conf/acl/other.yml", str(error))
        self.assertRaises(BadAccessFile, self.editor.set_white_addresses, ["10.0.0.3"])
        self.assertEqual(self.content("plain_acl.yml"), before)

    def test_delete(self) -> None:
        """An account is deleted from its file; the others stay."""
        self.assertTrue(self.editor.delete("12345678"))
        self.assertEqual(self.content("acl/more.yml"), {"accounts": []})
        self.assertFalse(self.editor.delete("12345678"))
        self.assertEqual(sorted(self.editor.read()[1].accounts), ["an-admin"])

    def test_white_addresses(self) -> None:
        """The addresses of one file are replaced; it is named by its path or below the directory."""
        self.editor.set_white_addresses(["10.0.0.2"])
        self.editor.set_white_addresses(["10.0.0.3"], "acl/more.yml")
        _, rules = self.editor.read()
        admin = rules.accounts["an-admin"]
        found = [bool(rules.needs_no_signature(admin, f"10.0.0.{n}")) for n in (1, 2, 3)]
        self.assertEqual(found, [False, True, True])
        self.editor.set_white_addresses([], "/conf/acl/more.yml")
        self.assertFalse(self.editor.read()[1].needs_no_signature(admin, "10.0.0.3"))

    def test_broken(self) -> None:
        """A file that cannot be read is not overwritten."""
        self.files.replace("/conf/plain_acl.yml", b"accounts: [")
        said = str(self.assertRaises(BadAccessFile, self.editor.update, AccountChange("newcomer", "new-secret")))
        self.assertEqual(said, "plain_acl.yml cannot be read: the server's log tells why")
        self.assertEqual(self.files.read("/conf/plain_acl.yml"), b"accounts: [")
        self.assertEqual(self.editor.versions()["plain_acl.yml"].counter, 0)
