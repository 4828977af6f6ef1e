"""Tests of L{smartgo.client.internal.denials}: what counts as a refusal of access control."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import AccessRules
from smartgo.auth.decisions import decide
from smartgo.auth.plainacl import read_plain_acl
from smartgo.auth.users import accounts_of, read_users
from smartgo.client.internal.denials import is_denial, words_deny
from smartgo.errors import PeerRefused
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.signature import AccessKey

RULES = """
globalWhiteRemoteAddresses: [10.0.0.9]
accounts: [{accessKey: a-sender, secretKey: a-sender-secret, groupPerms: [g=SUB]}]
"""
USERS = b'{"users": [{"username": "a-user-of-5", "password": "a-user-secret"}]}'
FIELDS = {"topic": "orders", "consumerGroup": "h", "queueId": "0"}


class DenialTests(SynchronousTestCase):
    """The one list of words."""

    def test_decisions(self) -> None:
        """Every sentence with which smartgo refuses a request counts: of each code, without a key and with each."""
        plain = read_plain_acl(RULES)
        users = accounts_of(read_users(USERS), "DefaultCluster")
        rules = AccessRules([*plain.accounts.values(), *users], plain.unsigned_from)
        keys = [AccessKey(name, secret) for name, secret in (
            ("a-sender", "a-sender-secret"), ("a-user-of-5", "a-user-secret"), ("a-sender", "another-secret"),
        )]  # fmt: skip
        found = 0
        for code in (*RequestCode, 99999):
            for key in (None, *keys):
                for ip in ("10.0.0.1", "10.0.0.9"):
                    request = Command.request(int(code), fields=dict(FIELDS))
                    if key is not None:
                        key.sign(request)
                    decision = decide(rules, request, ip)
                    named = "the request does not name" in decision.reason or "body" in decision.reason
                    if not decision.allowed and not named:
                        found += 1
                        self.assertTrue(words_deny(decision.reason), decision.reason)
        self.assertGreater(found, 500)

    def test_rocketmq(self) -> None:
        """RocketMQ's remarks begin with the name of an exception; its 5.x brokers have a code as well."""
        for remark in (
            "org.apache.rocketmq.acl.common.AclException: No default permission for g, org.apache...",
            "AuthorizationException: User:u has no permission to access Topic:T from 10.0.0.1, no policy",
        ):
            self.assertTrue(words_deny(remark))
        self.assertTrue(is_denial(PeerRefused(16, "the broker's permission is 4")))

    def test_others(self) -> None:
        """Other errors with the code 1 do not, as names of topics and groups can be any words."""
        for remark in (
            "the disk is full",
            "topic signature-permission does not exist",
            "accessKey-topic: no route",
            "",
        ):
            self.assertFalse(is_denial(PeerRefused(1, remark)), remark)
