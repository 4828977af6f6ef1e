"""Timed messages of a broker in a process of its own, and C{kill -9}."""

from __future__ import annotations

import time
from collections import Counter

from smartgo.schema import properties as names
from smartgo.schema.message import StoredMessage
from tests.broker.brokerprocess import BrokerProcessCase
from tests.broker.fakecluster import pull_command, records, send_command

COUNT = 120


class KilledTimersTests(BrokerProcessCase):
    """A broker that is killed while messages come due."""

    def check(self, **settings: str) -> None:
        """Send messages that are due during four seconds, kill the broker twice meanwhile, and look at what came."""
        self.settings = settings
        self.start()
        self.assertEqual(self.ask(send_command("T", b"plain", 1)).code, 0)
        begin = round(time.time() * 1000) + 500
        due = {str(number): begin + number * 4000 // COUNT for number in range(COUNT)}
        for key, at in due.items():
            properties = {names.UNIQ_KEY: key, names.TIMER_DELIVER_MS: str(at)}
            self.assertEqual(self.ask(send_command("T", key.encode(), 0, properties=properties)).code, 0)
        for share in (4, 2):
            self.wait_for(COUNT // share)
            self.end(self.process)
            self.start()
        self.wait_for(COUNT)
        self.end(self.process)
        self.start()
        found: list[StoredMessage] = []
        while (answer := self.ask(pull_command("T", 0, len(found)))).code == 0:
            found += records(answer.body)
        self.assertEqual(Counter(bytes(one.body).decode() for one in found), Counter(list(due)))
        early = [one for one in found if one.stored_ms < due[bytes(one.body).decode()]]
        self.assertEqual(early, [])

    def wait_for(self, count: int) -> None:
        """Ask until so many messages have come."""
        deadline = time.monotonic() + 60
        while self.ask(pull_command("T", 0, count - 1)).code != 0:
            self.assertLess(time.monotonic(), deadline)
            self.ask(pull_command("T", 1, 1, sys_flag=6, suspend_timeout_millis=50))  # waits for so long

    def test_asynchronous_flush(self) -> None:
        """Under ASYNC_FLUSH, the default, each message comes once, and none early."""
        self.check()

    def test_synchronous_flush(self) -> None:
        """Under SYNC_FLUSH too."""
        self.check(flushDiskType="SYNC_FLUSH")
