"""Tests of L{smartgo.auth.userediting} and L{smartgo.auth.users}."""

from __future__ import annotations

import json

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import Permission
from smartgo.auth.decisions import authorize
from smartgo.auth.plainacl import BadAccessFile
from smartgo.auth.policies import BadPolicy
from smartgo.auth.ruleediting import RuleEditor
from smartgo.auth.rulefiles import RuleFiles
from smartgo.auth.users import UserFile, read_users, write_users
from smartgo.schema.bodies.auth import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from tests.fakes import FakeEnvironment

RULES = b"accounts:\n- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}\n"


def entry(resource: str, *actions: str, decision: str = "Allow") -> PolicyEntryInfo:
    """Return an entry of a policy."""
    return PolicyEntryInfo(resource=resource, actions=list(actions), decision=decision)


def acl(*entries: PolicyEntryInfo, kind: str | None = None) -> AclInfo:
    """Return a body of entries."""
    return AclInfo(policies=[PolicyInfo(policy_type=kind, entries=list(entries))])


class UserEditorTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Files with one account."""
        self.env = FakeEnvironment()
        self.env.files.make_directories("/conf")
        self.env.files.create("/conf/plain_acl.yml", RULES)
        self.rules = RuleFiles(self.env.files, "/conf", "c1")
        editor = RuleEditor(self.env.files, self.rules, self.env.clock.wall_ms)
        self.users, self.limited = editor.users(True), editor.users(False)

    def names(self) -> list[str]:
        """Return the accounts in force."""
        return sorted(self.rules.read().accounts)

    def refused(self, said: str, what: object, *arguments: object) -> None:
        """Check that a change is refused, and the file stays as it was."""
        before = self.rules.stamp()
        self.assertEqual(str(self.assertRaises(BadPolicy, what, *arguments)), said)
        self.assertEqual(self.rules.stamp(), before)

    def test_users(self) -> None:
        """Users are created, changed and deleted; their passwords are never told."""
        self.users.create_user(UserInfo(username="alice", password="secret-1"))
        self.users.create_user(UserInfo(username="root", password="secret-2", user_type="super", user_status="enable"))
        self.assertEqual(self.names(), ["alice", "an-admin", "root"])
        told = [UserInfo(username="alice", user_type="Normal", user_status="enable"),
                UserInfo(username="root", user_type="Super", user_status="enable")]  # fmt: skip
        self.assertEqual(
            (self.users.users(""), self.users.users("ali"), self.users.user("root")), (told, told[:1], told[1])
        )
        self.assertIsNone(self.users.user("bob"))
        accounts = self.rules.read().accounts
        self.assertEqual((accounts["alice"].key.secret, accounts["root"].rights.admin), (b"secret-1", True))
        self.users.update_user(UserInfo(username="alice", password="secret-3"))
        self.assertEqual(self.rules.read().accounts["alice"].key.secret, b"secret-3")
        self.users.update_user(UserInfo(username="alice", user_status="disable"))
        self.assertEqual(self.names(), ["an-admin", "root"])
        self.users.update_user(UserInfo(username="alice", user_status="Enable", user_type="Super"))
        self.assertTrue(self.rules.read().accounts["alice"].rights.admin)
        self.users.delete_user("alice")
        self.assertEqual(self.names(), ["an-admin", "root"])

    def test_certificate(self) -> None:
        """The certificate of a user is kept by changes; no request tells it, and none can set it."""
        self.users.create_user(UserInfo(username="alice", password="secret-1"))
        users = json.loads(self.env.files.read("/conf/users.json"))
        users["users"][0]["certificate"] = "CN=alice"
        self.env.files.replace("/conf/users.json", json.dumps(users).encode())
        self.users.update_user(UserInfo(username="alice", password="secret-2"))
        found = self.rules.read().accounts["alice"]
        self.assertEqual((found.certificate, found.key.secret), ("CN=alice", b"secret-2"))
        told = json.loads(msgspec.json.encode(self.users.user("alice")))
        self.assertEqual(told, {"username": "alice", "userType": "Normal", "userStatus": "enable"})
        bob = UserInfo.decode(b'{"username":"bob","password":"secret-3","certificate":"CN=alice"}')
        self.users.create_user(bob)
        self.assertEqual(self.rules.read().accounts["bob"].certificate, "")

    def test_wrong_users(self) -> None:
        """What RocketMQ refuses is refused in its words; names of accounts are taken."""
        self.refused("password can not be blank", self.users.create_user, UserInfo(username="x", password=" "))
        self.refused("The user is existed", self.users.create_user, UserInfo(username="an-admin", password="x"))
        self.users.create_user(UserInfo(username="x", password="secret"))
        self.refused("The user is existed", self.users.create_user, UserInfo(username="x", password="x"))
        self.refused("The user is not exist", self.users.update_user, UserInfo(username="y", password="x"))
        self.users.delete_user("y")
        self.assertEqual([one.username for one in self.users.users("")], ["x"])
        self.refused(
            "The user type is Super or Normal.", self.users.update_user, UserInfo(username="x", user_type="Other")
        )
        self.refused(
            "The user status is enable or disable.", self.users.update_user, UserInfo(username="x", user_status="on")
        )

    def test_super_users(self) -> None:
        """Super users are changed by administrators without limits alone."""
        made = UserInfo(username="root", password="x", user_type="Super")
        self.refused("The super user can only be create by super user", self.limited.create_user, made)
        self.users.create_user(made)
        said = "The super user can only be update by super user"
        self.refused(said, self.limited.update_user, UserInfo(username="root", password="y"))
        self.refused(said, self.limited.delete_user, "root")
        self.limited.create_user(UserInfo(username="alice", password="x"))
        self.refused(said, self.limited.update_user, UserInfo(username="alice", user_type="Super"))
        self.limited.delete_user("alice")

    def test_policies(self) -> None:
        """Entries are added, take the place of others for the same resource, and are deleted one by one or all."""
        self.users.create_user(UserInfo(username="alice", password="secret"))
        self.assertIsNone(self.users.acl("User:alice"))
        self.users.put_acl("User:alice", acl(entry("Topic:T", "Pub"), entry("Group:g*", "Sub")))
        self.users.put_acl("User:alice", acl(entry("Topic:T", "Pub", "sub", decision="deny")))
        self.users.put_acl("User:alice", acl(entry("Topic:T", "All"), kind="Default"))
        changed = entry("Topic:T", "Pub", "Sub", decision="Deny")
        custom = PolicyInfo(policy_type="Custom", entries=[changed, entry("Group:g*", "Sub")])
        default = PolicyInfo(policy_type="Default", entries=[entry("Topic:T", "All")])
        found = AclInfo(subject="User:alice", policies=[custom, default])
        self.assertEqual(self.users.acl("User:alice"), found)
        self.assertEqual(self.users.acls("", ""), [found])
        self.assertEqual((self.users.acls("bob", ""), self.users.acls("", "Cluster")), ([], []))
        (one,) = self.users.acls("ali", "Group")
        self.assertEqual(one.policies, [PolicyInfo(policy_type="Custom", entries=[entry("Group:g*", "Sub")])])
        self.users.delete_acl("User:alice", "", "Topic:T")
        self.users.delete_acl("User:alice", "Default", "Topic:T")
        (one,) = self.users.acls("", "")
        self.assertEqual(one.policies, [PolicyInfo(policy_type="Custom", entries=[entry("Group:g*", "Sub")])])
        self.users.delete_acl("User:alice", "", "Group:g*")
        self.assertIsNone(self.users.acl("User:alice"))
        self.users.put_acl("User:alice", acl(entry("Topic:T", "Pub")))
        self.users.delete_acl("User:alice", "", "")
        self.refused("The acl is not exist.", self.users.delete_acl, "User:alice", "", "")
        self.users.put_acl("User:alice", acl(entry("Topic:T", "Pub")))
        self.users.delete_user("alice")
        self.assertEqual(self.users.acls("", ""), [])

    def test_wrong_policies(self) -> None:
        """Policies without a user, without entries, or with wrong ones are refused."""
        one = acl(entry("Topic:T", "Pub"))
        self.refused("The subject of User:bob is not exist.", self.users.put_acl, "User:bob", one)
        self.refused("The subject is no User:NAME.", self.users.put_acl, "bob", one)
        self.refused("The subject is not exist.", self.users.acl, "User:bob")
        self.refused("The subject is not exist.", self.users.delete_acl, "User:bob", "", "")
        self.refused("The policies is empty.", self.users.put_acl, "User:bob", AclInfo())
        self.refused("The policy entries is empty.", self.users.put_acl, "User:bob", acl())
        self.refused("The resource is null.", self.users.put_acl, "User:bob", acl(PolicyEntryInfo(actions=["Pub"])))
        self.users.create_user(UserInfo(username="bob", password="secret"))
        many = acl(*[entry(f"Topic:{number}", "Pub") for number in range(1025)])
        self.refused("A user has 1024 policy entries at most.", self.users.put_acl, "User:bob", many)

    def test_several_lists(self) -> None:
        """All policies of a user count, also where a file has them in several places, as they are told."""
        self.users.create_user(UserInfo(username="alice-b", password="a-secret"))
        acls = [acl(entry("Topic:t", "Pub", decision="Deny")), acl(entry("Topic:*", "Pub"))]
        for one in acls:
            one.subject = "User:alice-b"
        content = read_users(self.env.files.read("/conf/users.json", 1 << 20))
        self.env.files.replace("/conf/users.json", write_users(UserFile(content.users, acls)))
        account = self.rules.read().accounts["alice-b"]
        for topic, allowed in (("t", False), ("u", True)):
            self.assertEqual(authorize(account, 310, [(topic, Permission.PUB)]).allowed, allowed, topic)

    def test_files(self) -> None:
        """The file is enough by itself; one without a meaning is refused, its secrets untold; accounts count first."""
        self.users.create_user(UserInfo(username="alice-b", password="a-very-secret-word"))
        self.env.files.remove("/conf/plain_acl.yml")
        self.assertEqual(self.names(), ["alice-b"])
        text = bytes(self.env.files.files["/conf/users.json"].data)
        for wrong in (text[:-9], b"[]", text.replace(b"Normal", b"x"), text.replace(b'"username"', b'"other"')):
            self.env.files.replace("/conf/users.json", wrong)
            said = str(self.assertRaises(BadAccessFile, self.rules.read))
            self.assertTrue(said.startswith("/conf/users.json: "), said)
            self.assertNotIn("a-very", said)
        self.env.files.replace("/conf/users.json", text)
        both = RULES + b"- {accessKey: alice-b, secretKey: another-word}\n"
        self.env.files.create("/conf/plain_acl.yml", both)
        rules = self.rules.read()
        self.assertEqual(rules.accounts["alice-b"].key.secret, b"another-word")
        self.assertEqual(
            rules.notes, ("/conf/users.json: user alice-b: an account has this accessKey, and counts instead",)
        )
