"""Tests of L{smartgo.auth.decisions}."""

from __future__ import annotations

import json
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import AccessRules
from smartgo.auth.decisions import AccessDecision, check, decide
from smartgo.auth.needs import NEEDS
from smartgo.auth.plainacl import read_plain_acl
from smartgo.errors import AccessDenied
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.signature import ACCESS_KEY, SIGNATURE, AccessKey
from tests.auth.test_needs import EXAMPLES, OPEN

RULES: Final = read_plain_acl(
    """
globalWhiteRemoteAddresses: [10.9.9.9]
accounts:
- {accessKey: administrator, secretKey: secret-1, admin: true}
- {accessKey: limited-admin, secretKey: secret-1, admin: true, topicPerms: [u=PUB]}
- {accessKey: publisher, secretKey: secret-1, topicPerms: [t=PUB, u=PUB]}
- {accessKey: subscriber, secretKey: secret-1, topicPerms: [t=SUB, u=SUB], defaultGroupPerm: SUB}
- {accessKey: reader-without-group, secretKey: secret-1, defaultTopicPerm: SUB}
- {accessKey: owner-of-t, secretKey: secret-1, defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB}
- {accessKey: denied-t, secretKey: secret-1, topicPerms: [t=DENY], defaultTopicPerm: PUB|SUB, groupPerms: [g=DENY]}
- {accessKey: known-only, secretKey: secret-1}
- {accessKey: home-office, secretKey: secret-1, whiteRemoteAddress: 10.0.0.*, topicPerms: [t=PUB]}
"""
)
ELSEWHERE: Final = "192.0.2.1"

PUBLISH: Final = {10, 310, 320, 324, 325, 370, 37}
EITHER: Final = {29, 30, 31, 32, 202, 300, 351, 321}
"""Who may publish or subscribe may ask for these of a topic, if he names no group."""
READ_TOPIC: Final = {12}
NOTHING: Final = {34, 35}
"""A heartbeat and an unregistration that name no consumer group need no permission."""
RESOURCES: Final = set(EXAMPLES)
SUBSCRIBE: Final = RESOURCES - PUBLISH

ALLOWED: Final[dict[str, set[int]]] = {
    "publisher": OPEN | PUBLISH | EITHER | NOTHING,
    "subscriber": OPEN | SUBSCRIBE | {10, 310},
    "reader-without-group": OPEN | EITHER | READ_TOPIC | NOTHING,
    "owner-of-t": OPEN | RESOURCES,
    "denied-t": OPEN | NOTHING | {37},
    "known-only": OPEN | NOTHING,
}
"""The codes of which at least one example is allowed: by role, besides administrators."""

UNLISTED: Final = {int(code) for code in RequestCode} - set(NEEDS)


def request(
    code: int, fields: dict[str, str] | None = None, body: object = None, key: str = "", secret: str = "secret-1"
) -> Command:
    """Return a request as it arrives, signed where C{key} says by whom."""
    content = b"" if body is None else json.dumps(body).encode()
    made = Command.request(code, fields=dict(fields or {}), body=content)
    if key:
        AccessKey(key, secret).sign(made)
    return decode(encode(made)[4:])


def decided(rules: AccessRules, role: str, code: int, ip: str = ELSEWHERE) -> list[AccessDecision]:
    """Return the decisions about all examples of a code, signed by an account."""
    examples = EXAMPLES.get(code, [({"topic": "t", "consumerGroup": "g", "group": "g", "b": "t"}, None, [])])
    return [decide(rules, request(code, fields, body, role), ip) for fields, body, _ in examples]


class TableTests(SynchronousTestCase):
    """The decisions for each code and role (reliability X3)."""

    def test_roles(self) -> None:
        """Each role may use the codes that its permissions cover, and no others; each decision has a reason."""
        for role, allowed in ALLOWED.items():
            found = set()
            for code in map(int, RequestCode):
                decisions = decided(RULES, role, code)
                self.assertTrue(all(one.reason for one in decisions), code)
                if any(one.allowed for one in decisions):
                    found.add(code)
            self.assertEqual(found, allowed, role)

    def test_administrator(self) -> None:
        """An administrator may use each code that the table lists; nobody may use one that it does not list."""
        for code in map(int, RequestCode):
            for one in decided(RULES, "administrator", code):
                self.assertEqual(one.allowed, code not in UNLISTED, code)
        for code in (0, 999, -5, 65535):
            for ip in (ELSEWHERE, "10.9.9.9"):
                decision = decide(RULES, request(code, key="administrator"), ip)
                self.assertEqual(decision, (False, f"request code {code} is not known to access control"))

    def test_limited_administrator(self) -> None:
        """An administrator with a list of permissions may administrate, and is bound by the list otherwise."""
        for code in map(int, RequestCode):
            expected = code in OPEN or code in NOTHING or code == 37 or (code not in RESOURCES | UNLISTED)
            self.assertEqual(any(one.allowed for one in decided(RULES, "limited-admin", code)), expected, code)

    def test_without_account(self) -> None:
        """From an address that needs no signature, a request without an account may only what needs no permission."""
        for code in map(int, RequestCode):
            for one in decided(RULES, "", code, "10.9.9.9"):
                self.assertEqual(one.allowed, code in OPEN, code)
            for one in decided(RULES, "", code):
                self.assertFalse(one.allowed, code)


class IdentityTests(SynchronousTestCase):
    """Who sent a request."""

    def reason(self, made: Command, ip: str = ELSEWHERE) -> str:
        """Return why a request is refused."""
        error = self.assertRaises(AccessDenied, check, RULES, made, ip)
        self.assertEqual(error.code, 1)
        return str(error)

    def test_no_key(self) -> None:
        """A request without a key is refused in RocketMQ's words."""
        self.assertEqual(self.reason(request(105, {"topic": "t"})), "No accessKey is configured")
        self.assertEqual(self.reason(request(105, {ACCESS_KEY: ""})), "No accessKey is configured")

    def test_certificate(self) -> None:
        """
        A request without a key counts as that of the account which names the certificate; one with a key is judged by
        its signature, from wherever it comes.
        """
        rules = read_plain_acl(
            "accounts:\n"
            "- {accessKey: by-certificate, secretKey: secret-1, certificate: CN=orders, topicPerms: [t=PUB]}\n"
            "- {accessKey: by-signature, secretKey: secret-1, topicPerms: [u=PUB]}\n"
        )
        ours, other = ("DNS:orders", "CN=orders"), ("CN=billing",)
        for topic, key, certificate, reason in (
            ("t", "", ours, "the client certificate is CN=orders; topicPerms of accessKey=by-certificate gives PUB"),
            ("u", "", ours, "No permission for topic u: PUB is needed, defaultTopicPerm of accessKey=by-certificate"),
            ("t", "", other, "No accessKey is configured, and no account names the certificate CN=billing"),
            ("t", "", (), "No accessKey is configured"),
            ("u", "by-signature", ours, "the signature is right; topicPerms of accessKey=by-signature gives PUB"),
            ("t", "by-signature", ours, "No permission for topic t: PUB is needed, defaultTopicPerm of"),
        ):
            decision = decide(rules, request(310, {"b": topic}, key=key), ELSEWHERE, certificate)
            self.assertEqual(decision.reason[: len(reason)], reason)
            self.assertEqual(decision.allowed, decision.reason.startswith("the "))
        for key in ("by-certificate", "by-signature"):
            forged = request(310, {"b": "t"}, key=key, secret="secret-2")
            self.assertEqual(
                decide(rules, forged, ELSEWHERE, ours), (False, f"Check signature failed for accessKey={key}")
            )

    def test_wrong(self) -> None:
        """An unknown key, a wrong secret, and a request that was changed give the same remark (reliability X2)."""
        for made in (
            request(105, {"topic": "t"}, key="owner-of-t", secret="secret-2"),
            request(105, {ACCESS_KEY: "owner-of-t"}),
            request(105, {ACCESS_KEY: "owner-of-t", SIGNATURE: "ä"}),
        ):
            self.assertEqual(self.reason(made), "Check signature failed for accessKey=owner-of-t")
        unknown = request(105, key="stranger")
        self.assertEqual(self.reason(unknown, "10.9.9.9"), "Check signature failed for accessKey=stranger")
        self.assertEqual(self.reason(unknown), "Check signature failed for accessKey=stranger")
        made = request(310, {"b": "t"}, key="publisher")
        made.fields["b"] = "u"
        self.assertEqual(self.reason(made), "Check signature failed for accessKey=publisher")
        made = request(310, {"b": "t"}, key="publisher")
        made.body = b"another"
        self.assertEqual(self.reason(made), "Check signature failed for accessKey=publisher")
        self.assertEqual(
            self.reason(request(105, key="nobody's", secret="an unknown key costs as much time as a known one")),
            "Check signature failed for accessKey=nobody's",
        )

    def test_unsigned_address(self) -> None:
        """An address without signatures skips the signature, not the permissions (reliability X4)."""
        made = {ACCESS_KEY: "home-office", "b": "t"}
        self.assertEqual(
            decide(RULES, request(310, made), "10.0.0.7"),
            (True, "whiteRemoteAddress names 10.0.0.7; topicPerms of accessKey=home-office gives PUB for topic t"),
        )
        self.assertIn("Check signature failed", self.reason(request(310, made), "10.0.1.7"))
        self.assertIn("No permission for topic u", self.reason(request(310, {**made, "b": "u"}), "10.0.0.7"))
        self.assertIn(
            "Check signature failed", self.reason(request(310, {**made, ACCESS_KEY: "owner-of-t"}), "10.0.0.7")
        )
        check(RULES, request(310, {**made, ACCESS_KEY: "owner-of-t"}), "10.9.9.9")
        self.assertEqual(
            self.reason(request(310, made | {ACCESS_KEY: ""}), "10.9.9.9"),
            "request 310 (SEND_MESSAGE_V2) needs permissions, and no accessKey says whose they are",
        )


class ReasonTests(SynchronousTestCase):
    """Reasons, as clients and C{smartgo acl test} are told."""

    def test_denied(self) -> None:
        """A denial names what is needed, and which setting gives what."""
        for key, code, fields, reason in (
            ("publisher", 11, {"topic": "t", "consumerGroup": "g"},
             "No permission for topic t: SUB is needed, topicPerms of accessKey=publisher gives PUB"),
            ("reader-without-group", 11, {"topic": "t", "consumerGroup": "g"},
             "No permission for group g: SUB is needed, defaultGroupPerm of accessKey=reader-without-group gives DENY"),
            ("known-only", 30, {"topic": "t"},
             "No permission for topic t: PUB or SUB is needed, defaultTopicPerm of accessKey=known-only gives DENY"),
            ("owner-of-t", 17, {"topic": "t"},
             "Need admin permission for request code=17, but accessKey=owner-of-t is not"),
            ("subscriber", 37, {}, "accessKey=subscriber may not publish to any topic"),
            ("owner-of-t", 310, {}, "the request does not name its topic"),
        ):  # fmt: skip
            self.assertEqual(decide(RULES, request(code, fields, key=key), ELSEWHERE), (False, reason))

    def test_allowed(self) -> None:
        """So does a permission."""
        for key, code, fields, reason in (
            ("owner-of-t", 310, {"b": "t"}, "defaultTopicPerm of accessKey=owner-of-t gives PUB|SUB for topic t"),
            ("publisher", 37, {}, "accessKey=publisher may publish to a topic"),
            ("administrator", 17, {}, "accessKey=administrator is an administrator"),
            ("administrator", 310, {"b": "t"},
             "accessKey=administrator is an administrator without a list of permissions"),
            ("known-only", 105, {},
             "request 105 (GET_ROUTEINFO_BY_TOPIC) is open to everybody who has said who he is"),
            ("known-only", 35, {}, "request 35 (UNREGISTER_CLIENT) names no topic and no group here"),
        ):  # fmt: skip
            self.assertEqual(
                decide(RULES, request(code, fields, key=key), ELSEWHERE), (True, f"the signature is right; {reason}")
            )

    def test_trace(self) -> None:
        """Every account may publish its traces; nothing else of the request passes with them (reliability X3)."""
        self.assertTrue(decide(RULES, request(310, {"b": "RMQ_SYS_TRACE_TOPIC"}, key="known-only"), ELSEWHERE).allowed)
        fields = {"topic": "RMQ_SYS_TRACE_TOPIC", "consumerGroup": "g"}
        self.assertIn(
            "No permission for topic RMQ_SYS_TRACE_TOPIC",
            decide(RULES, request(11, fields, key="subscriber"), ELSEWHERE).reason,
        )
        self.assertFalse(decide(RULES, request(310, {"b": "RMQ_SYS_TRACE_TOPIC"}), ELSEWHERE).allowed)
