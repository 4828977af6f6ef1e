"""Undecided half messages outlive their log file: they are written again before retention removes it."""

from __future__ import annotations

from typing import ClassVar

from smartgo.schema import properties as names
from smartgo.schema.message import COMMIT, NewMessage
from smartgo.schema.properties import decode
from smartgo.schema.topics import HALF_TOPIC
from smartgo.store.interfaces import Appended
from smartgo.store.logcopies import LogCopies
from tests.broker.fakecluster import Cluster
from tests.broker.transactioncase import TransactionCase
from tests.store.stores import power_off

_FILE = 1 << 20


class RollTests(TransactionCase):
    """A broker whose log is limited to a few files."""

    settings: ClassVar[dict[str, str]] = {
        "transactionCheckInterval": "3600000",
        "maxLogTotalSize": str(3 * _FILE),
        "transactionTimeOut": "0",
        "diskFreeMinimum": "0",
    }

    def fill(self, files: int) -> None:
        """Append plain messages that fill some log files, and let retention follow."""
        for _ in range(files * 10):
            self.cluster.send("Plain", b"x" * (_FILE // 10))
        self.cluster.pump(60, 1.0)

    def begin(self) -> int:
        """Return the physical offset where the log begins."""
        return self.cluster.broker.store.log_bounds()[0]

    def test_kept(self) -> None:
        """Undecided messages are there, and are checked back, whose files went three times; decided ones are gone."""
        sent = [self.half(b"%d" % number, queue_id=0) for number in range(100)]
        for one in sent[::2]:
            self.end(one, COMMIT)
        for round_ in range(3):
            self.fill(4)
            self.assertEqual(len(self.transactions.pending), 50, round_)
            oldest = self.transactions.pending.oldest
            assert oldest is not None
            self.assertGreater(self.begin(), _FILE * (round_ + 1))
            self.assertGreaterEqual(oldest.physical_offset, self.begin())
        self.assertEqual(len(self.stored(HALF_TOPIC)), 50)
        self.assertEqual(self.end(sent[1], COMMIT).code, 1)  # its record is gone; it will be asked for
        self.cluster.pump(3600, 5.0)
        checks = self.checks()
        self.assertEqual({one.msg_id for one in checks}, {f"U{number}" for number in range(2, 101, 2)})
        for check in checks:
            self.assertEqual(self.end(check, COMMIT).code, 0)
        bodies = sorted(bytes(one.body) for one in self.stored("T"))
        self.assertEqual(bodies, sorted(b"%d" % number for number in range(1, 100, 2)))

    def test_counts(self) -> None:
        """The copy has the number of check-backs of the one before."""
        self.half()
        self.cluster.pump(3601, 5.0)
        self.assertEqual(len(self.checks()), 1)
        self.fill(6)
        self.assertGreater(self.begin(), 0)
        (stored,) = self.stored(HALF_TOPIC)
        self.assertEqual(decode(stored.properties)[names.TRANSACTION_CHECK_TIMES], "1")
        self.assertEqual([one.checks for one in self.transactions.pending.undecided()], [1])

    def test_without_key(self) -> None:
        """A message without a UNIQ_KEY stays one transaction."""
        self.half(UNIQ_KEY="")
        for _ in range(2):
            self.fill(5)
            self.assertEqual(len(self.transactions.pending), 1)
        self.assertGreater(self.begin(), 4 * _FILE)
        self.restart()
        self.assertEqual(len(self.transactions.pending), 1)
        self.cluster.pump(3601, 5.0)
        (check,) = self.checks()
        self.assertEqual(self.end(check, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"])

    def test_power_failure(self) -> None:
        """A file goes after the copies are flushed, so that a power failure loses none."""
        self.half()
        self.fill(6)
        self.assertGreater(self.begin(), 0)
        machine = power_off(self.cluster.env)
        self.cluster.stop()
        self.cluster = Cluster(machine, **self.settings)
        self.successResultOf(self.cluster.service.ready)
        self.connect()
        self.assertEqual([one.key for one in self.transactions.pending.undecided()], [("PG", "T", "U1")])

    def test_full_disk(self) -> None:
        """On a full disk, which takes no other messages, they are written again, and the file goes."""
        self.half()
        self.fill(2)
        full: list[bool] = []
        append = LogCopies.append

        def seen(copies: LogCopies, message: NewMessage) -> Appended:
            full.append(copies.is_disk_full)
            return append(copies, message)

        self.patch(LogCopies, "append", seen)
        self.fill_disk()
        self.assertGreater(self.begin(), 0)
        self.assertEqual(full, [True])
        self.assertEqual(len(self.transactions.pending), 1)
        self.assertGreaterEqual(self.transactions.pending.undecided()[0].physical_offset, self.begin())

    def fill_disk(self) -> None:
        """Let the disk be full, of which the log is a good part, and the store notice."""
        files = self.cluster.env.files
        files.total, files.free = 10 * _FILE, _FILE // 2
        self.cluster.send("Plain")
        self.cluster.pump(60, 1.0)

    def test_nothing_gained(self) -> None:
        """On a full disk a file stays whose copies would take what it gives back, and the plan says why."""
        for _ in range(9):
            self.half(b"x" * (_FILE // 10))
        self.fill(1)
        self.fill_disk()
        self.assertEqual(self.cluster.send("Plain").code, 14)
        self.assertEqual(self.begin(), 0)
        plan = self.successResultOf(self.cluster.broker.store.cleaner.plan())
        self.assertIn("undecided half messages lie in it that cannot be written again", plan.kept)
        self.assertIn("the copies would take what the file gives back", plan.kept)
        self.assertEqual(len(self.transactions.pending), 9)
