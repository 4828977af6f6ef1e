"""A week of a broker under load, on a clock and a disk in memory; C{python -m tests.store.week} is the large form."""

from __future__ import annotations

from smartgo.schema.codes import ResponseCode
from tests.broker.fakecluster import Cluster, ClusterCase
from tests.fakes import FakeEnvironment

KIB = 1024
LOG_FILE = 64 * KIB
HOUR = 3600
RATE = 6  # messages an hour
SETTINGS = {
    "mappedFileSizeCommitLog": "64KiB",
    "mappedFileSizeConsumeQueue": "400",
    "diskFreeMinimum": "0",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


class Reader:
    """A group that reads a queue and commits what it has read."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self.offset = 0
        self.got: list[int] = []
        self.moved = 0

    def read(self, most: int = 1000) -> None:
        """Pull until there is nothing, or this many messages were read."""
        while most > 0:
            answer, found = self._cluster.pull(
                "T", 0, self.offset, consumer_group=self._group, max_msg_nums=min(32, most)
            )
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                break
            self.offset = int(answer.fields["nextBeginOffset"])
            if answer.code == ResponseCode.PULL_OFFSET_MOVED:
                self.moved += 1
                continue
            self.got += [int(bytes(one.body).partition(b".")[0]) for one in found]
            most -= len(found)
        self._cluster.broker.offsets.commit(self._group, "T", 0, self.offset)


class WeekTests(ClusterCase):
    """Seven days, a message every ten minutes."""

    def run_week(self, total: int, slow: int) -> tuple[Cluster, list[float], list[int], Reader, Reader]:
        """
        Run a broker for a week.

        @param total: bytes of the disk.
        @param slow: messages that the slow group reads an hour.
        @return: the broker, the use of the disk and the mappings after each hour, the two groups.
        """
        env = FakeEnvironment()
        env.files.total = env.files.free = total
        cluster = Cluster(env, **SETTINGS)
        self.addCleanup(cluster.stop)
        quick, late = Reader(cluster, "quick"), Reader(cluster, "late")
        used: list[float] = []
        mappings: list[int] = []
        number = 0
        for _ in range(7 * 24):
            for _ in range(RATE):
                answer = cluster.send("T", b"%d" % number + b"." * 4000, properties={"KEYS": f"k{number}"})
                self.assertEqual(answer.code, 0, answer.remark)
                number += 1
                for _ in range(10):
                    env.clock.advance(HOUR / RATE / 10)
                used.append(1 - env.files.free / total)
            quick.read()
            late.read(slow)
            mappings.append(len(env.files.mappings))
        return cluster, used, mappings, quick, late

    def test_by_age(self) -> None:
        """With room for more than 72 h old files go by age at four o'clock; nobody misses a message."""
        cluster, used, mappings, quick, late = self.run_week(6 << 20, RATE)
        store = cluster.broker.store
        self.assertLess(max(used), 0.85)
        self.assertEqual(quick.got, list(range(7 * 24 * RATE)))
        self.assertEqual(late.got, quick.got)
        self.assertEqual((quick.moved, late.moved), (0, 0))
        first = store.bounds("T", 0)[0]
        oldest_hours = (7 * 24 * RATE - first) / RATE
        self.assertTrue(72 <= oldest_hours <= 72 + 24 + 3, oldest_hours)
        self.assertLess(max(mappings[110:]), max(mappings[:110]) + 3)
        reasons = {reason.value: count for reason, count in store.cleaner.removed.by_reason.items() if count}
        self.assertEqual(set(reasons), {"expired"})

    def test_by_disk(self) -> None:
        """On a disk for a day the oldest files go early; it never passes 85 %, and who keeps up misses nothing."""
        cluster, used, mappings, quick, late = self.run_week(1 << 20, RATE // 2)
        store = cluster.broker.store
        self.assertLess(max(used), 0.85)
        self.assertEqual(quick.got, list(range(7 * 24 * RATE)))
        self.assertEqual(quick.moved, 0)
        self.assertLess(max(mappings[48:]), max(mappings[:48]) + 3)
        self.assertGreater(store.cleaner.removed.log_files, 30)
        self.assertGreater(late.moved, 0)
        self.assertEqual(late.got, sorted(set(late.got)))
        lost = sum(store_count for _, _, store_count in cluster.broker.group_progress.unread_removals.totals())
        self.assertEqual(len(late.got) + lost, late.offset)
