"""What people read of a group's member."""

from __future__ import annotations

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.memberinfo import print_info
from smartgo.schema.bodies import ConsumerRunningInfo, MessageQueue, ProcessQueueInfo

__doctests__ = ["smartgo.cli.support.memberinfo"]


class InfoTests(SynchronousTestCase):
    """Clients of smartgo, and others that tell less."""

    def shown(self, properties: dict[str, str], **queue: bool | int) -> str:
        """Return what is printed of a member with one queue."""
        table = {MessageQueue("T", "broker-a", 0): ProcessQueueInfo(**queue)}  # type: ignore[arg-type]
        found = ConsumerRunningInfo(properties=properties, mq_table=table)

        @click.command()
        def show() -> None:
            print_info(found, False)

        return CliRunner().invoke(show).stdout

    def test_hanging(self) -> None:
        """A listener that never returned: how many calls, since when, and that nothing was consumed."""
        properties = {"PROP_THREADPOOL_CORE_SIZE": "20", "listenerCalls": "20", "longestListenerCallMillis": "70500"}
        shown = self.shown(properties, last_consume_timestamp=1_700_000_000_000, never_consumed=True)
        full = "20 calls under way, the longest for 70.5 s: all slots are taken; does the listener return?"
        self.assertIn(full, shown)
        self.assertRegex(shown, "broker-a +0 .* never\n")
        self.assertNotIn("2023", shown)
        busy = self.shown({**properties, "listenerCalls": "3"})
        self.assertIn("3 calls under way, the longest for 70.5 s: does the listener return?", busy)
        ordered = self.shown({**properties, "PROP_CONSUMEORDERLY": "true"})  # one call for each queue, without a limit
        self.assertIn("20 calls under way, the longest for 70.5 s: does the listener return?", ordered)
        well = self.shown({**properties, "longestListenerCallMillis": "12"})
        self.assertIn("20 calls under way, the longest for 0.012 s\n", well)

    def test_other_clients(self) -> None:
        """A client that does not tell of its listener has that said, and its own time of the last consumption."""
        shown = self.shown({"PROP_CONSUMEORDERLY": "true"}, last_consume_timestamp=1_700_000_000_000)
        self.assertIn("in order, queue by queue", shown)
        self.assertIn("not told by this client; --stacks shows its threads", shown)
        self.assertIn("2023-11-1", shown)
