"""The check of a file: errors, warnings, settings without effect, and the verdict."""

from __future__ import annotations

import json

from tests.cli.case import CommandCase
from tests.remoting.certificates import Authority, place

NOT_OURS = "is a setting of RocketMQ that smartgo does not have"


class ConfigCheckTests(CommandCase):
    def lay(self, text: str) -> str:
        """Write a file; return its name."""
        self.env.files.files.pop("/broker.conf", None)
        self.env.files.create("/broker.conf", text.encode())
        return "/broker.conf"

    def test_verdict(self) -> None:
        """The output has what is given, and ends with one sentence."""
        path = self.lay("brokerName=b\nflushDiskType=SYNC_FLUSH\n")
        lines = self.out("config", "check", path).splitlines()
        self.assertEqual(lines[-1], "/broker.conf is valid for smartgo-broker: 2 settings.")
        self.assertEqual(len(lines), 5)  # a heading, two rows, an empty line
        self.assertGreater(len(self.out("config", "check", path, "--all").splitlines()), 80)
        self.assertEqual(len(self.json("config", "check", path)), 2)

    def test_without_effect(self) -> None:
        """Settings without effect are named, those that are not built and those of RocketMQ alone."""
        path = self.lay("filterSupportRetry=true\ntransientStorePoolEnable=true\nnosuch=1\n")
        result = self.invoke("config", "check", path)
        self.assertEqual(
            result.stderr.splitlines(),
            [
                "warning: /broker.conf, line 3: unknown setting nosuch",
                "warning: /broker.conf, line 1: filterSupportRetry has no effect yet",
                f"no effect: /broker.conf, line 2: transientStorePoolEnable {NOT_OURS}",
            ],
        )
        self.assertTrue(result.stdout.endswith(": 1 setting, 2 warnings, 1 without effect.\n"), result.stdout)

    def test_errors(self) -> None:
        """All errors are shown, and the number of them; status 78, and nothing on standard output."""
        path = self.lay("aclEnable=true\nlistenPort=abc\nbindAddress=0.0.0.0\n")
        result = self.invoke("config", "check", path, status=78)
        self.assertEqual(result.stdout, "")
        lines = [one for one in result.stderr.splitlines() if not one.startswith("warning")]
        self.assertTrue(lines[0].startswith("error: /broker.conf, line 2: listenPort=abc is not allowed"), lines)
        self.assertTrue(lines[1].startswith("error: aclEnable=true: there is no access control file"), lines)
        self.assertTrue(lines[2].startswith("error: the broker's port for slaves would listen on 0.0.0.0"), lines)
        self.assertEqual(lines[-1], "smartgo: /broker.conf: smartgo-broker would not start: 3 errors")

    def test_one(self) -> None:
        """One error is one sentence: what the daemon says."""
        path = self.lay("aclEnable=true\n")
        said = self.refused("config", "check", path, status=78)
        missing = "neither /home/test/conf/plain_acl.yml nor a file below acl"
        self.assertIn(f"aclEnable=true: there is no access control file: {missing}", said)

    def test_access(self) -> None:
        """Slips in the files of access control are warnings, as in the log of a start."""
        path = self.lay("aclEnable=true\naclPath=/rules\n")
        rules = "accounts:\n- {accessKey: a-sender, secretKey: a-secret, topicPerm: [a=PUB], topicPerms: [b=PUBB]}\n"
        self.env.files.make_directories("/rules")
        self.env.files.create("/rules/plain_acl.yml", rules.encode())
        begin = "warning: access control: /rules/plain_acl.yml: account a-sender: "
        self.assertEqual(
            self.invoke("config", "check", path).stderr.splitlines(),
            [
                f"{begin}topicPerm is unknown, without effect (is topicPerms meant?)",
                f"{begin}topicPerms: b: PUBB is none of PUB, SUB, PUB|SUB, SUB|PUB, DENY and counts as DENY",
            ],
        )

    def test_certificates(self) -> None:
        """Accounts with certificates are of no use where no client is asked for one."""
        rules = "accounts:\n- {accessKey: a-sender, secretKey: a-secret, certificate: CN=orders}\n"
        self.env.files.make_directories("/rules")
        self.env.files.create("/rules/plain_acl.yml", rules.encode())
        said = "accounts name certificates, but no client is asked for one (tls.server.need.client.auth)"
        place(self.env.files, "/ca.pem", (authority := Authority()).pem)
        certificate, key = authority.issue("localhost")
        place(self.env.files, "/own.pem", certificate)
        place(self.env.files, "/own.key", key)
        tls = "tls.server.certPath=/own.pem\ntls.server.keyPath=/own.key\ntls.server.trustCertPath=/ca.pem\n"
        for more, found in (("", True), (f"{tls}tls.server.need.client.auth=optional\n", False)):
            path = self.lay(f"aclEnable=true\naclPath=/rules\n{more}")
            self.assertEqual(said in self.invoke("config", "check", path).stderr, found, more)

    def test_program(self) -> None:
        """Each program reads its own settings and makes its own checks."""
        path = self.lay("slaveReadEnable=true\n")
        result = self.invoke("config", "check", path, "--for", "registry", "-o", "json")
        self.assertIn("slaveReadEnable is a setting of the table [broker], not read here", result.stderr)
        self.assertEqual(json.loads(result.stdout), [])
        self.assertIn("the REST API needs a registry", self.refused("config", "check", path, "--for", "ops", status=78))
