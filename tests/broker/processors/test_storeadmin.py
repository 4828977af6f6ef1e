"""Requests of administrators about the store as a whole, against a broker in memory."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.bodies import BackupReport, StoreState
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.timers import peer_progress_struct
from tests.broker.fakecluster import Cluster


class StoreAdminTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def ask(self, **fields: str) -> Command:
        """30003."""
        return self.cluster.ask(Command.request(RequestCode.BACKUP_STORE, fields=fields))

    def test_backup(self) -> None:
        """30003 begins a backup, and without a name tells how the last one went."""
        self.assertEqual(BackupReport.decode(self.ask().body), BackupReport())
        self.cluster.send("T", b"body")
        begun = BackupReport.decode(self.ask(name="one").body)
        self.assertEqual((begun.name, begun.state in ("running", "done")), ("one", True))
        self.cluster.pump(5.0)
        ended = BackupReport.decode(self.ask().body)
        self.assertEqual((ended.name, ended.state, ended.error), ("one", "done", ""))
        self.assertGreater(ended.end, 0)
        self.assertTrue(self.cluster.env.files.exists(f"{ended.directory}/smartgo.backup.json"))

    def test_refused(self) -> None:
        """A name that leads elsewhere is refused."""
        answer = self.ask(name="../../etc")
        self.assertEqual(answer.code, 1)
        self.assertIn("letters, digits", answer.remark or "")

    def test_too_slow(self) -> None:
        """A rate at which a backup would run for months, and keep others out, is refused."""
        answer = self.ask(name="slow", rate="65535")
        self.assertEqual(answer.code, 1)
        self.assertIn("at least 65536 B", answer.remark or "")
        self.assertEqual(BackupReport.decode(self.ask().body), BackupReport())
        self.assertEqual(BackupReport.decode(self.ask(name="least", rate="65536").body).name, "least")

    def state(self, code: RequestCode = RequestCode.GET_STORE_STATE, **fields: str) -> StoreState:
        """30004 or 30005."""
        answer = self.cluster.ask(Command.request(code, fields=fields))
        self.assertEqual(answer.code, 0, answer.remark)
        return StoreState.decode(answer.body)

    def test_state(self) -> None:
        """30004 tells the log's bounds and files, the disk with its thresholds, damage and the scrub."""
        self.cluster.send("T", b"body")
        self.state()  # which has the time of the oldest message looked up
        self.cluster.pump(1.0)
        state = self.state()
        self.assertEqual((state.begin, state.log_files), (0, 1))
        self.assertEqual((state.end, state.flushed), (self.cluster.broker.store.log_bounds()[1], state.end))
        self.assertEqual(state.log_size, self.cluster.broker.store.log_file_sizes[0])
        self.assertLessEqual(state.earliest, self.cluster.env.clock.wall_ms())
        self.assertGreater(state.earliest, 0)
        self.assertEqual((state.retention, state.reserved, state.hours), (True, 72 * 3600.0, [4]))
        self.assertEqual((state.used_ratio, state.forcible_ratio, state.full_ratio), (0.75, 0.85, 0.9))
        self.assertGreater(state.disk_total, state.disk_free)
        self.assertEqual((state.regions, state.newest, state.repaired, state.last_removed), (0, [], 0, 0))
        self.assertEqual((state.scrub.running, state.scrub.last_ended), (False, 0))
        self.assertGreater(state.scrub.rate, 0)
        self.assertEqual((state.timers is not None and state.timers.waiting, state.refusal), (0, ""))

    def test_scrub(self) -> None:
        """30005 begins a scrub, which tells its result when it has ended; ending one that does not run is nothing."""
        self.cluster.send("T", b"body")
        self.assertTrue(self.state(RequestCode.SCRUB_STORE, running="true").scrub.running)
        self.cluster.pump(30.0, 1.0)
        scrub = self.state(RequestCode.SCRUB_STORE, running="false").scrub
        self.assertEqual((scrub.running, scrub.last_records, scrub.last_damaged), (False, 1, 0))
        self.assertEqual(scrub.last_bytes, self.state().end)
        self.assertGreater(scrub.next, scrub.last_ended)

    def test_timers(self) -> None:
        """30004 tells how many timed messages wait, and when the next one is due."""
        due = self.cluster.env.clock.wall_ms() + 60_000
        self.cluster.send("T", b"body", properties={"TIMER_DELIVER_MS": str(due)})
        self.cluster.pump(1.0)
        timers = self.state().timers
        assert timers is not None
        self.assertEqual((timers.ready, timers.waiting, timers.next), (True, 1, due))
        self.assertEqual(timers.next_latest, due)
        self.assertEqual((timers.delivered, timers.max_delay), (0, 40 * 24 * 3600))
        self.cluster.pump(61.0, 1.0)
        timers = self.state().timers
        assert timers is not None
        self.assertEqual((timers.waiting, timers.next, timers.delivered), (0, 0, 1))

    def progress(self) -> tuple[int, ...]:
        """60: the fields of the answer."""
        answer = self.cluster.ask(Command.request(RequestCode.GET_TIMER_CHECK_POINT))
        self.assertEqual(len(answer.body), 56)
        return tuple(peer_progress_struct.unpack(bytes(answer.body)))

    def test_timer_progress(self) -> None:
        """60 tells a slave of RocketMQ 5 before which second all was delivered, and how far messages were taken."""
        now = self.cluster.env.clock.wall_ms()
        self.assertEqual(self.progress(), (now // 1000 * 1000, 0, 0, 0, 0, now, 0))
        due = now // 1000 * 1000 + 5000
        far = now + 30 * 24 * 3_600_000
        for time in (due, due + 1, far):
            self.cluster.send("T", b"body", properties={"TIMER_DELIVER_MS": str(time)})
        self.cluster.pump(1.0)
        now = self.cluster.env.clock.wall_ms()
        self.assertEqual(self.progress(), (now // 1000 * 1000, 0, 3, 3, 0, now, 3))
        self.cluster.broker.store.hold_back("no master")
        self.cluster.pump(10.0, 1.0)
        self.assertEqual(self.progress()[0], due - 1000)  # the first one waits in the wheel's second before its own
        self.cluster.broker.store.hold_back(None)
        self.cluster.pump(10.0, 1.0)
        now = self.cluster.env.clock.wall_ms()
        self.assertEqual(self.progress()[0], now // 1000 * 1000)

    def test_far_timers(self) -> None:
        """Of a message that is due so late that it waits on the disk the ten minutes are told in which it is due."""
        due = self.cluster.env.clock.wall_ms() + 30 * 24 * 3_600_000
        self.cluster.send("T", b"body", properties={"TIMER_DELIVER_MS": str(due)})
        self.cluster.pump(1.0)
        timers = self.state().timers
        assert timers is not None
        self.assertEqual((timers.waiting, timers.next % 600_000, timers.next_latest - timers.next), (1, 0, 599_999))
        self.assertTrue(timers.next <= due <= timers.next_latest)
