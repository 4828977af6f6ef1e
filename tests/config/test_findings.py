"""Errors, warnings and settings without effect, as one reading of a file finds them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.findings import AllFindings, LoadFindings
from smartgo.config.loading import BROKER, Surroundings, load
from smartgo.errors import SettingError

CONF = b"""brokerName=a
listenPort=abc
transientStorePoolEnable=true
enableDLegerCommitLog=true
orderMessageEnable=true
nosuch=1
flushDiskType=SOMETIMES
haAccessKey=0123456789abcdef
"""


class FindingsTests(SynchronousTestCase):
    def read(self, findings: LoadFindings, path: str = "broker.conf", data: bytes = CONF) -> None:
        """Load a file."""
        load(Surroundings("vm", "/home/mq", lambda name: None), BROKER, path, data, {"nowhere": "1"}, None, findings)

    def test_all(self) -> None:
        """All errors are found, values and their relations alike, each with its line."""
        findings = AllFindings()
        self.read(findings)
        self.assertEqual(
            [str(one).partition(" is not")[0] for one in findings.errors],
            [
                "broker.conf, line 4: enableDLegerCommitLog=true",
                "command line: unknown setting nowhere",
                "broker.conf, line 2: listenPort=abc",
                "broker.conf, line 7: flushDiskType=SOMETIMES",
                "broker.conf, line 8: haAccessKey needs haSecretKey beside it",
            ],
        )

    def test_ignored(self) -> None:
        """RocketMQ's settings without a meaning here are named, and those of another program; unknown ones warn."""
        findings = AllFindings()
        self.read(findings)
        self.assertEqual(
            findings.ignored,
            [
                "broker.conf, line 3: transientStorePoolEnable is a setting of RocketMQ that smartgo does not have",
                "broker.conf, line 5: orderMessageEnable is a setting of the table [registry], not read here",
            ],
        )
        self.assertEqual(findings.warnings, ["broker.conf, line 6: unknown setting nosuch"])

    def test_toml(self) -> None:
        """A TOML file is read to its end as well."""
        findings = AllFindings()
        data = b"""key = 1
[broker]
listenPort = "abc"
flushDiskType = "SYNC_FLUSH"
warmMapedFileEnable = true
"""
        self.read(findings, "smartgo.toml", data)
        self.assertEqual(len(findings.errors), 4)
        self.assertIn("flushDiskType belongs in the table [store]", str(findings.errors[1]))
        self.assertEqual(
            findings.ignored,
            ["smartgo.toml, [broker]: warmMapedFileEnable is a setting of RocketMQ that smartgo does not have"],
        )

    def test_consequence(self) -> None:
        """A setting that was refused is not refused again for what its default does."""
        findings = AllFindings()
        findings.refuse(SettingError("a"), "broker", "listenPort")
        findings.refuse(SettingError("b"), "broker", "listenPort")
        findings.refuse(SettingError("c"))
        findings.refuse(SettingError("d"))
        self.assertEqual([str(one) for one in findings.errors], ["a", "c", "d"])

    def test_first(self) -> None:
        """A start ends with the first error."""
        error = self.assertRaises(SettingError, self.read, LoadFindings())
        self.assertIn("line 4: enableDLegerCommitLog=true is not supported", str(error))
