"""Tests of L{smartgo.auth.connections}."""

from __future__ import annotations

from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth import connections, decisions
from smartgo.auth.accounts import Permission
from smartgo.auth.connections import MOST_REMEMBERED, AccessControl, ConnectionAccess, HeldIdentity
from smartgo.auth.plainacl import read_plain_acl
from smartgo.errors import AccessDenied
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandlayout import BINARY, JSON
from smartgo.schema.headers.send import SendRequest
from smartgo.schema.signature import AccessKey
from tests.auth.test_decisions import ALLOWED, ELSEWHERE, RULES
from tests.auth.test_decisions import request as example
from tests.auth.test_needs import EXAMPLES


def send(
    topic: str, key: str = "publisher", secret: str = "secret-1", encoding: int = JSON, code: int = 310
) -> Command:
    """Return a send as it arrives, with the typed header of the fast path."""
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1600000000000", "h": "0"}
    made = Command.request(code, fields=fields, body=b"Hello")
    made.encoding = encoding
    if key:
        AccessKey(key, secret).sign(made)
    received = decode(encode(made)[4:])
    assert received.header is not None
    return received


def pull(topic: str, group: str) -> Command:
    """Return a pull as it arrives, with the typed header of the fast path."""
    numbers = ("queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis", "subVersion")
    made = Command.request(11, fields={"consumerGroup": group, "topic": topic} | dict.fromkeys(numbers, "1"))
    AccessKey("publisher", "secret-1").sign(made)
    received = decode(encode(made)[4:])
    assert received.header is not None
    return received


class ConnectionAccessTests(SynchronousTestCase):
    """The decisions about a connection."""

    def setUp(self) -> None:
        """Count how often a signature is looked at."""
        self.control = AccessControl(RULES)
        self.access = ConnectionAccess(self.control, ELSEWHERE)
        self.identified = 0
        self.authorized = 0
        identify, authorize = decisions.identify, decisions.authorize

        def counted_identify(*args: object) -> object:
            self.identified += 1
            return identify(*args)  # type: ignore[arg-type]

        def counted_authorize(*args: object) -> object:
            self.authorized += 1
            return authorize(*args)  # type: ignore[arg-type]

        self.patch(connections, "identify", counted_identify)
        self.patch(connections, "authorize", counted_authorize)

    def refused(self, access: ConnectionAccess, made: Command) -> str:
        """Return why a request is refused."""
        return str(self.assertRaises(AccessDenied, access.check, made))

    def test_other_topic(self) -> None:
        """What was decided about one topic opens no other one, nor another request code."""
        self.access.check(send("t"))
        self.assertIn("No permission for topic v", self.refused(self.access, send("v")))
        self.assertIn("No permission for topic v", self.refused(self.access, send("v", code=320)))
        self.assertIn("Need admin permission", self.refused(self.access, example(17, {"topic": "t"}, key="publisher")))
        fields = {"topic": "t", "consumerGroup": "g"}
        self.assertIn("SUB is needed", self.refused(self.access, example(11, fields, key="publisher")))

    def test_other_group(self) -> None:
        """What was decided about a group opens the topic to no other group."""
        self.control.replace(
            read_plain_acl(
                "accounts: [{accessKey: publisher, secretKey: secret-1, topicPerms: [t=SUB], groupPerms: [g=SUB]}]"
            )
        )
        self.access.check(pull("t", "g"))
        self.access.check(pull("t", "g"))
        self.assertIn("No permission for group h", self.refused(self.access, pull("t", "h")))
        self.assertEqual((self.identified, self.authorized), (3, 2))

    def test_first(self) -> None:
        """The first request has to be signed; a wrong one opens nothing."""
        self.assertIn("No accessKey", self.refused(self.access, send("t", key="")))
        self.assertIn("Check signature failed", self.refused(self.access, send("t", secret="secret-2")))
        self.assertIn("No accessKey", self.refused(self.access, send("t", key="")))

    def test_shared(self) -> None:
        """A request of another account on the same connection has that account's rights, if it signed it."""
        self.access.check(send("t", key="publisher"))
        fields = {"topic": "t", "consumerGroup": "g"}
        self.access.check(example(11, fields, key="subscriber"))
        self.assertIn(
            "Check signature", self.refused(self.access, example(11, fields, key="subscriber", secret="x" * 8))
        )
        self.assertIn("SUB is needed", self.refused(self.access, example(11, fields, key="publisher")))
        self.assertIn("No accessKey", self.refused(self.access, send("t", key="")))
        self.assertIn("No permission for topic t", self.refused(self.access, send("t", key="known-only")))
        self.access.check(send("u", key="owner-of-t"))
        self.assertIn("Check signature", self.refused(self.access, send("v", key="owner-of-t", secret="x" * 8)))

    def test_each_signature(self) -> None:
        """Each signature is verified; the permissions are remembered."""
        for encoding in (JSON, BINARY):
            self.identified = self.authorized = 0
            access = ConnectionAccess(self.control, ELSEWHERE)
            for topic in ("t", "u", "t", "u", "t"):
                access.check(send(topic, encoding=encoding))
            self.assertEqual((self.identified, self.authorized), (5, 2))
        self.assertIn("Check signature failed", self.refused(self.access, send("t", secret="secret-2")))
        self.access.check(send("t"))
        self.assertIn("Check signature failed", self.refused(self.access, send("t", secret="secret-2")))
        self.assertIn("No accessKey", self.refused(self.access, send("t", key="")))
        self.assertIn("No permission for topic t", self.refused(self.access, send("t", key="known-only")))

    def test_replaced(self) -> None:
        """Other rules apply to open connections from the next request on."""
        self.access.check(send("t"))
        self.control.replace(read_plain_acl("accounts: [{accessKey: publisher, secretKey: secret-1}]"))
        self.assertIn("No permission for topic t", self.refused(self.access, send("t")))
        self.control.replace(read_plain_acl("accounts: [{accessKey: publisher, secretKey: secret-2, admin: true}]"))
        self.assertIn("Check signature failed", self.refused(self.access, send("t")))
        self.access.check(send("t", secret="secret-2"))

    def test_named_twice(self) -> None:
        """A field that comes twice counts once: the decision is about the topic that the processor reads."""
        head = '{"code":310,"extFields":{"AccessKey":"publisher","a":"p","b":"t","b":"v","c":"T","d":"4","e":"0",'
        raw = (head + '"f":"0","g":"1","h":"0"},"opaque":7}').encode()
        made = decode(len(raw).to_bytes(4, "big") + raw)
        self.assertEqual(made.read(SendRequest).topic, "v")
        access = ConnectionAccess(self.control, "10.9.9.9")
        access.check(send("t"))
        self.assertIn("No permission for topic v", self.refused(access, made))

    def test_bounded(self) -> None:
        """No client makes a connection remember more than a limit."""
        for number in range(MOST_REMEMBERED + 10):
            self.access.check(send(f"topic-{number}", key="owner-of-t"))
        self.assertLessEqual(len(self.access._allowed[310]), MOST_REMEMBERED)
        self.assertGreater(len(self.access._allowed[310]), 0)
        self.access.check(send("topic-0", key="owner-of-t"))

    def test_replayed(self) -> None:
        """A request that was overheard and sent again opens nothing but itself."""
        overheard = send("t")
        self.access.check(overheard)
        self.access.check(overheard)
        self.assertIn("No accessKey", self.refused(self.access, send("t", key="")))
        self.assertIn("Check signature failed", self.refused(self.access, send("t", secret="none")))

    def test_table(self) -> None:
        """For each code and role the decision is that of the table, twice."""
        for role, allowed in ALLOWED.items():
            access = ConnectionAccess(self.control, ELSEWHERE)
            found = set()
            for code in [*map(int, RequestCode), *map(int, RequestCode)]:
                for fields, body, _ in EXAMPLES.get(code, [({}, None, [])]):
                    try:
                        access.check(example(code, fields, body, role))
                    except AccessDenied:
                        continue
                    found.add(code)
            self.assertEqual(found, allowed, role)


CERTIFICATE = ("DNS:orders", "CN=orders")
WITH_CERTIFICATE = """
globalWhiteRemoteAddresses: [10.9.9.9]
accounts:
- {accessKey: publisher, secretKey: secret-1, certificate: CN=orders, topicPerms: [t=PUB|SUB], groupPerms: [g=SUB]}
"""


class CertificateTests(SynchronousTestCase):
    """Connections with a client certificate that an account names."""

    def setUp(self) -> None:
        self.control = AccessControl(read_plain_acl(WITH_CERTIFICATE))
        self.access = ConnectionAccess(self.control, ELSEWHERE, CERTIFICATE)

    def test_unsigned(self) -> None:
        """Requests without a key have the rights of the account, those with one are judged by their signature."""
        self.access.check(send("t", key=""))
        self.access.check(send("t"))
        for made, said in (
            (send("u", key=""), "No permission for topic u"),
            (send("t", secret="secret-2"), "Check signature failed"),
            (send("t", key="a-stranger"), "Check signature failed"),
            (example(17, {"topic": "t"}), "Need admin permission"),
        ):
            self.assertIn(said, str(self.assertRaises(AccessDenied, self.access.check, made)))
        other = ConnectionAccess(self.control, ELSEWHERE)
        self.assertRaises(AccessDenied, other.check, send("t", key=""))

    def test_asked_once(self) -> None:
        """What the account may do with a topic is asked once."""
        with mock.patch.object(connections, "authorize", wraps=decisions.authorize) as asked:
            for _ in range(3):
                self.access.check(send("t", key=""))
        self.assertEqual(asked.call_count, 1)

    def test_replaced(self) -> None:
        """A certificate that no account names any more is worth nothing from the next request on."""
        self.access.check(send("t", key=""))
        self.control.replace(read_plain_acl(WITH_CERTIFICATE.replace("CN=orders", "CN=billing")))
        error = self.assertRaises(AccessDenied, self.access.check, send("t", key=""))
        self.assertIn("no account names the certificate DNS:orders or CN=orders", str(error))

    def test_account(self) -> None:
        """What a request does not name itself is checked by the same account; a white address alone has none."""
        unsigned, signed = send("t", key=""), send("t")
        for made, certificate, known in (
            (unsigned, CERTIFICATE, True), (unsigned, (), False), (signed, (), True), (signed, CERTIFICATE, True),
        ):  # fmt: skip
            found = self.control.account_of(made, certificate)
            self.assertEqual(found is not None and found.name == "publisher", known)
        self.control.check_resource(unsigned, "t", Permission.PUB, ELSEWHERE, CERTIFICATE)
        self.assertRaises(
            AccessDenied, self.control.check_resource, unsigned, "u", Permission.PUB, ELSEWHERE, CERTIFICATE
        )
        self.assertRaises(AccessDenied, self.control.check_resource, unsigned, "t", Permission.PUB, ELSEWHERE)


class HeldIdentityTests(SynchronousTestCase):
    """The senders of requests that waited while the rules changed."""

    def refused(self, held: HeldIdentity, rules: str) -> str:
        """Return why a pull that waited is refused by other rules; empty where it is not."""
        self.control.replace(read_plain_acl(rules))
        try:
            self.control.check_held(held, 11, "t", "g")
        except AccessDenied as error:
            return str(error)
        return ""

    def held(self, name: str | None, ip: str, certificate: tuple[str, ...] = ()) -> HeldIdentity:
        """Return the identity of a pull that begins to wait by the rules of this class."""
        self.control = AccessControl(read_plain_acl(WITH_CERTIFICATE))
        return self.control.hold(name, ip, certificate)

    def test_signed(self) -> None:
        """A signed pull goes on while the key has the secret that it was signed with, or needs none."""
        changed = WITH_CERTIFICATE.replace("secret-1", "secret-2")
        removed = WITH_CERTIFICATE.replace("publisher", "publisher-2")
        self.assertEqual(self.refused(self.held("publisher", ELSEWHERE), WITH_CERTIFICATE), "")
        self.assertIn("Check signature failed", self.refused(self.held("publisher", ELSEWHERE), changed))
        self.assertIn("no accessKey says whose", self.refused(self.held("publisher", ELSEWHERE), removed))
        self.assertEqual(self.refused(self.held("publisher", ELSEWHERE), changed.replace("10.9.9.9", ELSEWHERE)), "")
        denied = WITH_CERTIFICATE.replace("t=", "u=")
        self.assertIn("No permission for topic t", self.refused(self.held("publisher", ELSEWHERE), denied))

    def test_address(self) -> None:
        """A pull that needed no signature because of its address goes on while the address needs none."""
        elsewhere = WITH_CERTIFICATE.replace("10.9.9.9", "10.9.9.8")
        self.assertEqual(self.refused(self.held("publisher", "10.9.9.9"), WITH_CERTIFICATE), "")
        self.assertIn("Check signature failed", self.refused(self.held("publisher", "10.9.9.9"), elsewhere))

    def test_certificate(self) -> None:
        """A pull over a connection with a certificate goes on while an account names that one, whatever its secret."""
        changed = WITH_CERTIFICATE.replace("secret-1", "secret-2")
        self.assertEqual(self.refused(self.held(None, ELSEWHERE, CERTIFICATE), changed), "")
        removed = WITH_CERTIFICATE.replace("CN=orders", "CN=billing")
        self.assertIn("no accessKey says", self.refused(self.held(None, ELSEWHERE, CERTIFICATE), removed))
