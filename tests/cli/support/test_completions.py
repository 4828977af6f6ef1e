"""Completion of names that a cluster has."""

from __future__ import annotations

from click.testing import CliRunner

from smartgo.cli.main import cli
from tests.cli.case import ClusterCase


class CompletionTests(ClusterCase):
    def setUp(self) -> None:
        """Topics and groups."""
        super().setUp()
        for name in ("Orders", "Other"):
            self.out("topic", "create", name, "-n", "1")
        self.out("group", "create", "audit")
        self.out("context", "set", "prod")

    def words(self, line: str, more: str = "") -> list[str]:
        """Return the completions of the last word of a line."""
        words = [*line.split(), more] if line.endswith(" ") else line.split()
        result = CliRunner().invoke(
            cli, [], prog_name="smartgo",
            env={
                "_SMARTGO_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
            },
        )  # fmt: skip
        self.assertEqual(result.stderr, "")
        return [one.partition(",")[2] for one in result.stdout.splitlines() if one]

    def test_topics(self) -> None:
        """Topics are completed as arguments and options; system topics are left out."""
        self.assertEqual(self.words("smartgo topic show O"), ["Orders", "Other"])
        self.assertEqual(self.words("smartgo send Or"), ["Orders"])
        self.assertEqual(self.words("smartgo topic show "), ["Orders", "Other"])
        self.assertEqual(self.words("smartgo group lag audit --topic Ot"), ["Other"])

    def test_groups(self) -> None:
        """Groups are completed, without the built-in ones."""
        self.assertEqual(self.words("smartgo group lag "), ["audit"])
        self.assertEqual(self.words("smartgo group reset a"), ["audit"])
        self.assertEqual(self.words("smartgo group reset audit Ord"), ["Orders"])
        self.assertEqual(self.words("smartgo consume Orders --group a"), ["audit"])

    def test_brokers(self) -> None:
        """Brokers are completed, and contexts."""
        self.assertEqual(self.words("smartgo cluster drain b"), ["broker-a"])
        self.assertEqual(self.words("smartgo context use p"), ["prod"])

    def test_new_names(self) -> None:
        """The name of a topic to be created is not completed."""
        self.assertEqual(self.words("smartgo topic create O"), [])

    def test_silent(self) -> None:
        """Without a cluster nothing is completed, and nothing is said."""
        self.assertEqual(self.words("smartgo topic show -r 127.0.0.1:1 O"), [])
        self.assertEqual(self.words("smartgo topic show --context nowhere O"), [])
