"""C{smartgo acl}."""

from __future__ import annotations

import json

from tests.cli.case import CommandCase
from tests.remoting.certificates import Authority, place

RULES = """
globalWhiteRemoteAddresses: [10.0.0.1]
accounts:
- {accessKey: an-admin, secretKey: admin-secret, admin: true}
- {accessKey: frontend, secretKey: front-secret, defaultTopicPerm: SUB, topicPerms: [orders=PUB], groupPerms: [g=SUB]}
"""


class AclTests(CommandCase):
    """Decisions, explained from files."""

    def setUp(self) -> None:
        super().setUp()
        self.env.files.make_directories("/conf/acl")
        self.env.files.create("/conf/plain_acl.yml", RULES.encode())

    def decided(self, allowed: bool, *words: str) -> tuple[str, str]:
        """Check a decision; return its reason, and what is said of the signature."""
        arguments = ("acl", "test", *words, "--directory", "/conf", "-o", "json")
        found = json.loads(self.invoke(*arguments, status=0 if allowed else 77).stdout)
        self.assertEqual(found["allowed"], allowed)
        return found["reason"], found["signature"]

    def test_decisions(self) -> None:
        """The reason names the line of the file that decides."""
        reason, signature = self.decided(True, "frontend", "310", "--topic", "orders")
        self.assertEqual(reason, "topicPerms of accessKey=frontend gives PUB for topic orders")
        self.assertEqual(signature, "needed")
        reason, _ = self.decided(False, "frontend", "send-message-v2", "--topic", "other")
        self.assertIn("PUB is needed, defaultTopicPerm of accessKey=frontend gives SUB", reason)
        self.decided(True, "frontend", "PULL_MESSAGE", "--topic", "other", "--group", "g")
        reason, _ = self.decided(False, "frontend", "PULL_MESSAGE", "--topic", "other", "--group", "h")
        self.assertIn("No permission for group h", reason)
        self.decided(True, "frontend", "HEART_BEAT", "--topic", "other", "--group", "g")
        self.decided(False, "frontend", "HEART_BEAT", "--topic", "other", "--group", "h")
        reason, _ = self.decided(False, "frontend", "UPDATE_BROKER_CONFIG")
        self.assertIn("Need admin permission", reason)
        self.decided(True, "an-admin", "UPDATE_BROKER_CONFIG")

    def test_users(self) -> None:
        """Of users of RocketMQ 5 the policy that decides is named; source addresses and the cluster count."""
        entries = [
            {"resource": "Topic:ord*", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"},
            {"resource": "Cluster:c1", "actions": ["Update"], "decision": "Allow"},
        ]
        content = {
            "users": [{"username": "alice", "password": "secret", "userType": "Normal", "userStatus": "enable"}],
            "acls": [{"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": entries}]}],
        }
        self.env.files.create("/conf/users.json", json.dumps(content).encode())
        send = ("alice", "310", "--topic", "orders")
        reason, _ = self.decided(True, *send, "--from", "10.0.0.1")
        self.assertEqual(reason, "the policy for Topic:ord* allows Pub from 10.0.0.0/8")
        reason, _ = self.decided(False, *send, "--from", "11.0.0.1")
        self.assertEqual(
            reason, "User:alice has no permission to access Topic:orders, no policy for Topic:orders has Pub"
        )
        self.decided(True, "alice", "UPDATE_BROKER_CONFIG", "--cluster", "c1")
        self.decided(False, "alice", "UPDATE_BROKER_CONFIG")

    def test_certificate(self) -> None:
        """A decision about a client certificate, by its file or by one of its names."""
        more = "- {accessKey: the-orders, secretKey: orders-secret, certificate: CN=orders, topicPerms: [orders=PUB]}\n"
        self.env.files.create("/conf/acl/more.yml", f"accounts:\n{more}".encode())
        place(self.env.files, "/client.pem", Authority().issue("orders")[0])
        for certificate in ("/client.pem", "cn=orders"):
            send = ("310", "--certificate", certificate, "--topic")
            reason, signature = self.decided(True, *send, "orders")
            self.assertEqual(reason, "topicPerms of accessKey=the-orders gives PUB for topic orders")
            self.assertEqual(signature, "not needed: accessKey=the-orders names the certificate CN=orders")
            self.assertIn("defaultTopicPerm of accessKey=the-orders", self.decided(False, *send, "other")[0])
        reason, signature = self.decided(False, "310", "--certificate", "CN=billing", "--topic", "orders")
        self.assertEqual((reason, signature), ("no account names the certificate CN=billing", "needed"))
        self.decided(False, "4711", "--certificate", "CN=orders")
        said = self.refused("acl", "test", "310", "--certificate", "orders", "--directory", "/conf", status=78)
        self.assertIn("orders is no file, and no name of a certificate", said)
        for words in (("310",), ("orders", "310", "--certificate", "CN=orders"), ("a", "b", "310")):
            self.assertIn("--certificate", self.invoke("acl", "test", *words, status=2).stderr)

    def test_signature(self) -> None:
        """An address without signatures is named."""
        _, signature = self.decided(True, "an-admin", "25", "--from", "10.0.0.1")
        self.assertEqual(signature, "not needed: globalWhiteRemoteAddresses names 10.0.0.1")
        _, signature = self.decided(True, "an-admin", "25", "--from", "10.0.0.2")
        self.assertEqual(signature, "needed")

    def test_denied(self) -> None:
        """A key or a code that nobody knows is denied, and so is what does not name its topic."""
        self.assertEqual(self.decided(False, "stranger", "310")[0], "no account has accessKey=stranger")
        self.assertIn("is not known to access control", self.decided(False, "an-admin", "4711")[0])
        self.assertIn("does not name its topic; give it", self.decided(False, "frontend", "310")[0])
        self.assertIn("NO_CODE is no request code", self.invoke("acl", "test", "k", "NO_CODE", status=2).stderr)

    def test_directory(self) -> None:
        """By default the files are below the home; a file that cannot be used is named."""
        home = self.env.host.home()
        said = self.refused("acl", "test", "frontend", "310", status=78)
        self.assertIn(f"neither {home}/conf/plain_acl.yml nor", said)
        self.env.host.variables["ROCKETMQ_HOME"] = ""
        self.env.host.variables["SMARTGO_HOME"] = "/"
        self.assertIn("allowed", self.out("acl", "test", "frontend", "310", "--topic", "orders"))
        self.env.files.create("/conf/acl/x.yml", b"- a")
        self.assertIn("/conf/acl/x.yml: ", self.refused("acl", "test", "frontend", "310", status=78))
