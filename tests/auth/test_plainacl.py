"""Tests of L{smartgo.auth.plainacl}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import Permission
from smartgo.auth.addresses import AddressPattern
from smartgo.auth.plainacl import BadAccessFile, read_plain_acl

PUB, SUB, DENY = Permission.PUB, Permission.SUB, Permission.DENY

SHIPPED = """
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""The file that RocketMQ 4.9.7 ships."""


def account(lines: str) -> str:
    """Return a file with one account and further lines of it."""
    return "accounts:\n- accessKey: RocketMQ\n  secretKey: secret-of-one\n" + "".join(
        f"  {line}\n" for line in lines.splitlines()
    )


class PlainAclTests(SynchronousTestCase):
    """The file C{plain_acl.yml}."""

    def test_shipped(self) -> None:
        """The file that RocketMQ ships is read as RocketMQ reads it."""
        rules = read_plain_acl(SHIPPED)
        self.assertEqual(rules.unsigned_from, (AddressPattern("10.10.103.*"), AddressPattern("192.168.0.*")))
        self.assertEqual(list(rules.accounts), ["RocketMQ", "rocketmq2"])
        self.assertEqual(rules.notes, ())
        first = rules.accounts["RocketMQ"]
        self.assertEqual((first.rights.admin, first.rights.topics, first.rights.groups), (False, DENY, SUB))
        self.assertEqual(
            first.rights.resources,
            {
                "%RETRY%groupA": DENY, "%RETRY%groupB": PUB | SUB, "%RETRY%groupC": SUB,
                "topicA": DENY, "topicB": PUB | SUB, "topicC": SUB,
            },
        )  # fmt: skip
        self.assertFalse(first.unsigned_from)
        second = rules.accounts["rocketmq2"]
        self.assertTrue(second.rights.unlimited)
        self.assertEqual((second.rights.topics, second.rights.groups), (DENY, DENY))
        self.assertTrue(second.unsigned_from.matches("192.168.1.7"))

    def test_certificate(self) -> None:
        """An account may name a client certificate; what is no name of one is refused."""
        rules = read_plain_acl(account("certificate: cn=orders, O=Example"))
        found = rules.accounts["RocketMQ"]
        self.assertEqual((found.certificate, rules.notes), ("CN=orders,O=Example", ()))
        self.assertIs(rules.of_certificate(("DNS:x", "CN=orders,O=Example", "CN=orders")), found)
        self.assertIsNone(rules.of_certificate(("CN=orders",)))
        for line in ("", "certificate:", "certificate: ''"):
            self.assertEqual(read_plain_acl(account(line)).accounts["RocketMQ"].certificate, "")
        error = self.assertRaises(BadAccessFile, read_plain_acl, account("certificate: orders"))
        self.assertIn("account RocketMQ: certificate: it has to be URI:..., DNS:..., or a subject", str(error))

    def test_empty(self) -> None:
        """A file without accounts lets nobody in."""
        for text in ("", "# nothing\n", "accounts:\n", "accounts: []\nglobalWhiteRemoteAddresses:\n- ''\n"):
            rules = read_plain_acl(text)
            self.assertEqual((dict(rules.accounts), rules.unsigned_from), ({}, ()))

    def test_first_counts(self) -> None:
        """The first of two accounts with one key counts, and the second one is noted."""
        rules = read_plain_acl(
            account("admin: true") + "- accessKey: RocketMQ\n  secretKey: secret-of-two\n  admin: false\n"
        )
        self.assertTrue(rules.accounts["RocketMQ"].rights.admin)
        self.assertEqual(rules.notes, ("account 2: accessKey RocketMQ stands twice, the first one counts",))

    def test_notes(self) -> None:
        """What has no effect is noted, and an unknown permission denies."""
        rules = read_plain_acl(
            account("defaultTopicPerm: PU\ntopicPerms: [a=READ, 'b= SUB ', c==PUB]\npassword: secret\nadmin: 'TRUE'")
            + "other: 1\n"
        )
        rights = rules.accounts["RocketMQ"].rights
        self.assertEqual((rights.topics, rights.admin), (DENY, True))
        self.assertEqual(rights.resources, {"a": DENY, "b": SUB, "c": PUB})
        self.assertEqual(
            rules.notes,
            (
                "other is unknown, without effect",
                "account RocketMQ: password is unknown, without effect",
                "account RocketMQ: topicPerms: a: READ is none of PUB, SUB, PUB|SUB, SUB|PUB, DENY and counts as DENY",
                "account RocketMQ: defaultTopicPerm: PU is none of PUB, SUB, PUB|SUB, SUB|PUB, DENY and counts as DENY",
            ),
        )

    def test_slips(self) -> None:
        """Names that are nearly those of settings are noted with the right ones."""
        rules = read_plain_acl(account("topicPerm: [a=PUBB]\nSecretkey: x\nqqq: 1") + "account: []\n")
        self.assertEqual(
            rules.notes,
            (
                "account is unknown, without effect (is accounts meant?)",
                "account RocketMQ: topicPerm is unknown, without effect (is topicPerms meant?)",
                "account RocketMQ: Secretkey is unknown, without effect (is secretKey meant?)",
                "account RocketMQ: qqq is unknown, without effect",
            ),
        )

    def test_refused(self) -> None:
        """A file that cannot be used is refused as a whole; where and why is said, without the secret."""
        for text, said in (
            ("a: [", "no YAML at line 1"),
            ("- a\n", "has to be a mapping"),
            ("accounts: one\n", "accounts has to be a list"),
            ("accounts: [one]\n", "account 1 has to be a mapping"),
            ("accounts: [{secretKey: secret-of-one}]\n", "account 1: accessKey has to have 7"),
            ("accounts: [{accessKey: RocketM, secretKey: secret}]\n", "account 1: secretKey has to have 7"),
            ("accounts: [{accessKey: 123456, secretKey: secret-of-one}]\n", "account 1: accessKey has to have 7"),
            ("accounts: [{accessKey: RocketMQ, secretKey: 2024-01-02}]\n", "secretKey is no text for YAML"),
            ("accounts: [{accessKey: RocketMQ, secretKey: 12345.75}]\n", "secretKey is no text for YAML"),
            ("accounts: [{accessKey: !!python/name:os.system x, secretKey: secret-of-one}]\n", "no YAML"),
            (account("admin: maybe"), "account RocketMQ: admin has to be true or false"),
            (account("topicPerms: a=PUB"), "account RocketMQ: topicPerms has to be a list"),
            (account("topicPerms: [a]"), "account RocketMQ: topicPerms: a is not of the form NAME=PERMISSION"),
            (account("groupPerms: [a=PUB=SUB]"), "groupPerms: a=PUB=SUB is not of the form"),
            (account("whiteRemoteAddress: '*'"), "account RocketMQ: *: every address would be allowed"),
            ("globalWhiteRemoteAddresses: ['*.*.*.*']\n", "globalWhiteRemoteAddresses: *.*.*.*: every address"),
            ("globalWhiteRemoteAddresses: 10.0.0.1\n", "globalWhiteRemoteAddresses has to be a list"),
        ):
            error = self.assertRaises(BadAccessFile, read_plain_acl, text)
            self.assertIn(said, str(error))
            self.assertNotIn("secret-of-one", str(error))
            self.assertNotIn("12345.75", str(error))

    def test_no_secret_shown(self) -> None:
        """The rules and accounts show no secret (reliability X18)."""
        rules = read_plain_acl(SHIPPED)
        self.assertNotIn("12345678", repr(rules) + repr(rules.accounts))
