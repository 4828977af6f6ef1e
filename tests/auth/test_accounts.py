"""Tests of L{smartgo.auth.accounts}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import AccessAccount, AccessRules, Permission, Rights, named
from smartgo.auth.addresses import AddressPattern
from smartgo.schema.signature import AccessKey

ANY, PUB, SUB, DENY = Permission.ANY, Permission.PUB, Permission.SUB, Permission.DENY
KEY = AccessKey("RocketMQ", "12345678")


class PermissionTests(SynchronousTestCase):
    """Permissions, owned and needed."""

    def test_covers(self) -> None:
        """The table of C{Permission.checkPermission} of RocketMQ 4.9.7."""
        for owned, covered in ((PUB, {PUB, ANY}), (SUB, {SUB, ANY}), (PUB | SUB, {PUB, SUB, ANY}), (DENY, set()),
                               (DENY | PUB | SUB, set()), (Permission(0), set())):  # fmt: skip
            self.assertEqual({needed for needed in (PUB, SUB, ANY) if owned.covers(needed)}, covered, owned)

    def test_words(self) -> None:
        """Permissions have the words of the file."""
        for permission, words in ((PUB, "PUB"), (SUB, "SUB"), (PUB | SUB, "PUB|SUB"), (DENY | PUB, "DENY"),
                                  (ANY, "PUB or SUB")):  # fmt: skip
            self.assertEqual(permission.words, words)

    def test_named(self) -> None:
        """A retry topic is called by its group."""
        self.assertEqual((named("orders"), named("%RETRY%billing")), ("topic orders", "group billing"))


class RightsTests(SynchronousTestCase):
    """The rights of an account."""

    def test_of(self) -> None:
        """A listed permission outweighs the default; topics and groups have a default each."""
        rights = Rights(False, PUB, SUB, {"a": DENY, "%RETRY%a": PUB})
        self.assertEqual(rights.of("a"), (DENY, "topicPerms"))
        self.assertEqual(rights.of("b"), (PUB, "defaultTopicPerm"))
        self.assertEqual(rights.of("%RETRY%a"), (PUB, "groupPerms"))
        self.assertEqual(rights.of("%RETRY%b"), (SUB, "defaultGroupPerm"))

    def test_unlimited(self) -> None:
        """An administrator with a list of permissions is bound by it, as in RocketMQ."""
        self.assertTrue(Rights(admin=True).unlimited)
        self.assertFalse(Rights(admin=True, resources={"a": PUB}).unlimited)
        self.assertFalse(Rights().unlimited)

    def test_publishes(self) -> None:
        """Whoever may publish to some topic, by the default or by the list, is a publisher; a group is no topic."""
        for rights, publishes in (
            (Rights(), False), (Rights(admin=True), True), (Rights(topics=PUB), True), (Rights(topics=SUB), False),
            (Rights(groups=PUB), False), (Rights(resources={"a": PUB}), True), (Rights(resources={"a": SUB}), False),
            (Rights(resources={"%RETRY%a": PUB}), False),
        ):  # fmt: skip
            self.assertEqual(rights.publishes(), publishes, rights)


class AccessRulesTests(SynchronousTestCase):
    """Where no signature is needed."""

    def test_needs_no_signature(self) -> None:
        """The addresses of the file hold for all accounts, those of an account for itself."""
        one = AccessAccount(KEY, Rights(), AddressPattern("10.0.0.1"))
        other = AccessAccount(AccessKey("rocketmq2", "12345678"), Rights())
        rules = AccessRules([one, other], [AddressPattern("10.0.1.*")])
        self.assertEqual(rules.needs_no_signature(one, "10.0.0.1"), "whiteRemoteAddress")
        self.assertEqual(rules.needs_no_signature(other, "10.0.0.1"), "")
        self.assertEqual(rules.needs_no_signature(other, "10.0.1.9"), "globalWhiteRemoteAddresses")
        self.assertEqual(rules.needs_no_signature(one, ""), "")
        self.assertEqual(repr(one), "<account RocketMQ>")

    def test_certificates(self) -> None:
        """The first name of a certificate that an account names counts; of two accounts with one name the first."""
        one, other, third = (
            AccessAccount(AccessKey(f"account-{number}", "12345678"), Rights(), certificate=certificate)
            for number, certificate in enumerate(("CN=a", "DNS:a", "CN=a"))
        )
        rules = AccessRules([one, other, third, AccessAccount(KEY, Rights())])
        self.assertIs(rules.of_certificate(("DNS:a", "CN=a")), other)
        self.assertIs(rules.of_certificate(("DNS:b", "CN=a")), one)
        for names in ((), ("",), ("CN=b",)):
            self.assertIsNone(rules.of_certificate(names))
        for number in range(3000):  # more than are remembered
            self.assertIsNone(rules.of_certificate((f"CN=other-{number}",)))
        for _ in range(2):
            self.assertIs(rules.of_certificate(("DNS:a", "CN=a")), other)
        self.assertEqual((rules.name_certificates, AccessRules([]).name_certificates), (True, False))
