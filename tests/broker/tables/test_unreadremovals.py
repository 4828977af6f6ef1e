"""Tests of L{smartgo.broker.tables.unreadremovals}: what a group learns of messages that went before it read them."""

from __future__ import annotations

import json

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.tables.unreadremovals import UnreadRemovals
from smartgo.health.judgements import JUDGEMENTS
from smartgo.health.snapshot import ClusterSnapshot, GroupSnapshot
from smartgo.schema.bodies import ConsumeStats, MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.groups import ConsumeStatsRequest
from smartgo.store.queues.expiry import ExpiredUnits
from tests.broker.fakecluster import Cluster, ClusterCase
from tests.fakes import FakeEnvironment

SETTINGS = {"mappedFileSizeCommitLog": "64KiB", "maxLogTotalSize": "128KiB", "mappedFileSizeConsumeQueue": "200"}


class CountTests(ClusterCase):
    """The counts, with a table of offsets alone."""

    def setUp(self) -> None:
        """Three groups."""
        super().setUp()
        offsets = self.cluster.broker.offsets
        self.counts = UnreadRemovals(offsets)
        for group, offset in (("done", 100), ("late", 30), ("later", 0)):
            offsets.commit(group, "T", 0, offset)

    def test_counted(self) -> None:
        """Of each group what it had not read counts, once, and never what was gone before."""
        self.counts.expired(ExpiredUnits("T", 0, 0, 40))
        self.counts.expired(ExpiredUnits("T", 0, 40, 60))
        self.counts.expired(ExpiredUnits("T", 1, 0, 60))
        self.counts.expired(ExpiredUnits("U", 0, 0, 60))
        self.assertEqual(
            {group: self.counts.of(group, "T") for group in ("done", "late", "later", "unknown")},
            {"done": {}, "late": {0: 30}, "later": {0: 60}, "unknown": {}},
        )
        self.assertEqual(sorted(self.counts.totals()), [("late", "T", 30), ("later", "T", 60)])

    def test_forgotten(self) -> None:
        """A count goes a week after it last grew, while the broker runs; the next one begins anew."""
        clock = self.cluster.env.clock
        self.counts.expired(ExpiredUnits("T", 0, 0, 40))
        clock.wall_offset_ms += 7 * 24 * 3600 * 1000
        self.assertEqual(self.counts.of("late", "T"), {0: 10})
        clock.wall_offset_ms += 1
        self.assertEqual(self.counts.of("late", "T"), {})
        self.counts.expired(ExpiredUnits("T", 0, 40, 45))
        self.assertEqual(list(self.counts.totals()), [("late", "T", 5), ("later", "T", 5)])
        clock.wall_offset_ms += 7 * 24 * 3600 * 1000 + 1
        self.assertEqual(list(self.counts.totals()), [])

    def test_deleted(self) -> None:
        """A group that is deleted is forgotten."""
        self.counts.expired(ExpiredUnits("T", 0, 0, 40))
        self.cluster.broker.offsets.remove_group("later")
        self.assertEqual([group for group, _, _ in self.counts.totals()], ["late"])
        self.assertEqual(self.counts.of("later", "T"), {})


class KeptTests(SynchronousTestCase):
    """The counts over a restart."""

    def test_kept(self) -> None:
        """They are in the file of offsets, which RocketMQ reads as before, and go a week after they last grew."""
        cluster = Cluster()
        offsets = cluster.broker.offsets
        for group in ("late", "gone"):
            offsets.commit(group, "T", 0, 10)
            offsets.commit(group, "T", 1, 10)
        cluster.broker.group_progress.unread_removals.expired(ExpiredUnits("T", 1, 0, 40))
        offsets.remove("gone", "T")
        cluster.stop()
        saved = json.loads(cluster.env.files.read("/store/config/consumerOffset.json"))
        self.assertEqual(saved["offsetTable"], {"T@late": {"0": 10, "1": 10}})
        again = Cluster(cluster.env)
        counts = again.broker.group_progress.unread_removals
        self.assertEqual(list(counts.totals()), [("late", "T", 30)])
        counts.expired(ExpiredUnits("T", 1, 40, 45))
        self.assertEqual(counts.of("late", "T"), {1: 35})
        again.stop()
        again.env.clock.advance(7 * 24 * 3600.0 - 60)
        again = Cluster(again.env)
        self.assertEqual(again.broker.group_progress.unread_removals.of("late", "T"), {1: 35})
        again.stop()
        again.env.clock.advance(120)
        again = Cluster(again.env)
        self.assertEqual(list(again.broker.group_progress.unread_removals.totals()), [])
        self.assertEqual(again.broker.offsets.query("late", "T", 1), 10)
        again.stop()


class ConsumerTests(ClusterCase):
    """A broker whose log may have 128 KiB, and a group that is slower than its producer."""

    def setUp(self) -> None:
        """The group has read ten messages of two hundred."""
        self.cluster = Cluster(FakeEnvironment(), **SETTINGS)
        self.addCleanup(self.cluster.stop)
        self.cluster.ask(Command.request(RequestCode.HEART_BEAT))
        for number in range(10):
            self.cluster.send("T", b"%d" % number + b"." * 1000)
        self.cluster.broker.offsets.commit("late", "T", 0, 10)
        for number in range(10, 200):
            self.cluster.send("T", b"%d" % number + b"." * 1000)
        self.cluster.pump(40)
        self.first, self.end = self.cluster.broker.store.bounds("T", 0)

    def test_moved(self) -> None:
        """The group is moved to the first message that is left, as RocketMQ does, and goes on from there."""
        self.assertGreater(self.first, 50)
        self.assertEqual(self.end, 200)
        answer, found = self.cluster.pull("T", 0, 10)
        self.assertEqual((answer.code, found), (ResponseCode.PULL_OFFSET_MOVED, []))
        self.assertEqual(answer.fields["nextBeginOffset"], str(self.first))
        offset = self.first
        got = []
        while offset < 200:
            answer, found = self.cluster.pull("T", 0, offset)
            self.assertEqual(answer.code, 0)
            got += [one.queue_offset for one in found]
            offset = int(answer.fields["nextBeginOffset"])
        self.assertEqual(got, list(range(self.first, 200)))

    def removed(self) -> int:
        """Return the number of removed messages in the group's progress."""
        header = ConsumeStatsRequest(consumer_group="late")
        answer = self.cluster.ask(Command.request(RequestCode.GET_CONSUME_STATS, header))
        stats = ConsumeStats.decode(answer.body)
        return stats.offset_table[MessageQueue("T", "broker-a", 0)].removed

    def test_told(self) -> None:
        """The progress of the group says how many messages it has lost, also when it is past them."""
        self.assertEqual(self.removed(), self.first - 10)
        self.cluster.broker.offsets.commit("late", "T", 0, 200)
        self.assertEqual(self.removed(), self.first - 10)

    def test_restarted(self) -> None:
        """A broker that was started again knows of a group that is still before the first message."""
        self.cluster.broker.offsets.removed_unread.clear()
        self.assertEqual(self.removed(), self.first - 10)

    def test_alert(self) -> None:
        """The alert counts the messages, and fires for one."""
        judgement = JUDGEMENTS["group-lost-messages"]
        assert judgement.measure is not None
        groups = {"late": GroupSnapshot(5, 1.0, 1.0, 1, True, 7), "well": GroupSnapshot(5, 1.0, 1.0, 1, True)}
        self.assertEqual(judgement.measure(ClusterSnapshot(groups=groups)), {"late": 7, "well": 0})
        self.assertEqual((judgement.judge(0), judgement.judge(1)), (None, "warning"))
