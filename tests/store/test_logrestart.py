"""Tests of L{smartgo.store.logrestart}, through a slave's store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smartgo.errors import MessagesKept, OutOfPlace, ServiceNotAvailable
from smartgo.schema.index import Geometry
from smartgo.store.openstore import OpenStore
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings
from tests.fakes import FakeEnvironment
from tests.store.stores import LOG_SIZE, ROOT, StoreTestCase, killed, message, power_off, small

GEOMETRY = Geometry(11, 40)
_CHANGES = ("replace", "append", "overwrite", "rename", "remove", "create_sparse", "sync_directory")


def replica() -> StoreSettings:
    """Return the settings of a slave's store with an index."""
    return small(replica=True, index=True, index_geometry=GEOMETRY)


class RestartTests(StoreTestCase):
    """A slave with half of its master's log, and a master that has lost that half."""

    def setUp(self) -> None:
        self.master = self.opened(FakeEnvironment(), small())
        for number in range(300):
            self.send(self.master, message("TU"[number % 2], number % 3, body=b"%d" % number * 20))
        self.env = FakeEnvironment()
        self.middle = 2 * LOG_SIZE
        slave = self.opened(self.env, replica())
        self.copy(slave, self.middle - LOG_SIZE // 2)
        self.stopped(slave)
        self.at = 3 * LOG_SIZE
        self.assertLess(self.at, self.master.log_bounds()[1])

    def copy(self, slave: OpenStore, end: int) -> None:
        """Copy the master's log from where the slave's ends."""
        at = slave.log_bounds()[1]
        while at < end:
            piece = self.master.piece(at, min(1000, end - at))
            assert piece is not None
            slave.append_raw(at, bytes(piece))
            at += len(piece)

    def assert_follows(self, slave: OpenStore) -> None:
        """The slave copies the rest of the master's log, and delivers the same messages from there on."""
        self.assertEqual(slave.log_bounds(), (self.at, self.at))
        end = self.master.log_bounds()[1]
        self.copy(slave, end)
        self.env.clock.advance(2)
        self.assertEqual(slave.log_bounds(), (self.at, end))
        for topic in "TU":
            for queue_id in range(3):
                first, last = slave.bounds(topic, queue_id)
                self.assertEqual(last, self.master.bounds(topic, queue_id)[1])
                self.assertLess(first, last)
                theirs = [one for one in self.read_all(self.master, topic, queue_id) if one.physical_offset >= self.at]
                ours = self.read_all(slave, topic, queue_id)
                self.assertEqual([one.physical_offset for one in ours], [one.physical_offset for one in theirs])
                self.assertEqual(ours[0].queue_offset, first)

    def test_begins_anew(self) -> None:
        """All that there was goes, and the log goes on where the master's begins, over restarts, too."""
        for after in (lambda env: env, killed, power_off):
            self.setUp()
            slave = self.opened(self.env, replica())
            self.assertGreater(len(self.read_all(slave, "T", 0)), 0)
            self.now(slave.begin_anew(self.at, True))
            self.assertEqual(self.read_all(slave, "T", 0), [])
            self.assertEqual(self.env.files.list(f"{ROOT}/commitlog"), [])
            if after is not killed:
                self.assert_follows(slave)
                self.assert_index(slave)
            self.stopped(slave)
            self.env = after(self.env)
            slave = self.opened(self.env, replica())
            if after is killed:
                self.assert_follows(slave)
            self.assertEqual(slave.log_bounds(), (self.at, self.master.log_bounds()[1]))
            self.stopped(slave)

    def assert_index(self, slave: OpenStore) -> None:
        """The index has come to the end of the log."""
        self.env.clock.pump([0.1] * 20)
        self.assertEqual(slave.index_behind, 0)

    def test_refused(self) -> None:
        """Nothing goes where the log does not end before that place, or no file begins there, or on a master."""
        slave = self.opened(self.env, replica())
        before = slave.log_bounds()
        for offset in (0, LOG_SIZE, self.at + 1, before[1]):
            self.failureResultOf(slave.begin_anew(offset, True), OutOfPlace)
        self.assertEqual(slave.log_bounds(), before)
        self.failureResultOf(self.master.begin_anew(1 << 40, True), ServiceNotAvailable)

    def crash_at(self, env: FakeEnvironment, number: int) -> Callable[[], int]:
        """Let the change of that number, and all behind it, fail; return what counts the changes."""
        count = 0

        def counted(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count >= number:
                raise OSError(5, "the process is killed")
            return original(*args, **named)

        for name in _CHANGES:
            original = getattr(env.files, name)
            setattr(env.files, name, lambda *args, _original=original, **named: counted(_original, *args, **named))
        return lambda: count

    def test_killed(self) -> None:
        """Whatever change is the last before a kill, the store opens, and begins anew when asked again."""
        number = 0
        while True:
            number += 1
            self.setUp()
            slave = self.opened(self.env, replica())
            env = self.env
            count = self.crash_at(env, number)
            done: list[object] = []
            slave.begin_anew(self.at, True).addBoth(done.append)
            reached = count()
            for after in (killed(env), power_off(env)):
                self.env = after
                again = self.opened(after, replica())
                if again.log_bounds()[1] < self.at:
                    self.now(again.begin_anew(self.at, True))
                self.assert_follows(again)
                self.stopped(again)
            if reached < number:
                break
        self.assertEqual(done, [None])
        self.assertGreater(number, 4)

    def test_disk_fails(self) -> None:
        """Files that cannot be removed are in nobody's way, and are removed by the next start."""
        slave = self.opened(self.env, replica())
        remove = self.env.files.remove

        def failing(path: str) -> None:
            if "commitlog" in path:
                raise OSError(5, "Input/output error")
            remove(path)

        before = self.env.files.list(f"{ROOT}/commitlog")
        self.env.files.remove = failing  # type: ignore[method-assign]
        self.now(slave.begin_anew(self.at, True))
        self.assert_follows(slave)
        self.stopped(slave)
        self.assertEqual(self.env.files.list(f"{ROOT}/commitlog")[: len(before)], before)
        for after in (killed(self.env), power_off(self.env)):
            self.env = after
            slave = self.opened(after, replica())
            self.assertEqual(slave.log_bounds(), (self.at, self.master.log_bounds()[1]))
            self.assertFalse(set(before) & set(after.files.list(f"{ROOT}/commitlog")))
            self.stopped(slave)

    def test_checkpoint_fails(self) -> None:
        """Where the new beginning cannot be written down the log stays, and it can be tried again."""
        slave = self.opened(self.env, replica())
        bounds = slave.log_bounds()
        replace = self.env.files.replace

        def failing(path: str, data: bytes, backup: bool = True) -> None:
            raise OSError(28, "No space left on device")

        self.env.files.replace = failing  # type: ignore[method-assign]
        self.failureResultOf(slave.begin_anew(self.at, True), ServiceNotAvailable)
        self.assertEqual(slave.log_bounds(), bounds)
        self.env.files.replace = replace  # type: ignore[method-assign]
        self.env.clock.advance(60)
        self.stopped(slave)
        slave = self.opened(self.env, replica())
        self.assertEqual(slave.log_bounds(), bounds)
        self.now(slave.begin_anew(self.at, True))
        self.assert_follows(slave)

    def test_expired(self) -> None:
        """Without a wish messages go that have expired, and no others, by clocks that agree."""
        rules = RetentionRules(reserved=3600.0)
        slave = self.opened(self.env, small(replica=True, index=True, index_geometry=GEOMETRY, retention=rules))
        bounds = slave.log_bounds()
        kept = self.failureResultOf(slave.begin_anew(self.at), MessagesKept)
        self.assertIn("messages are kept for 1 h (fileReservedTime)", str(kept.value))
        self.env.clock.advance(3000)
        self.failureResultOf(slave.begin_anew(self.at), MessagesKept)
        self.env.clock.wall_offset_ms += 86_400_000
        kept = self.failureResultOf(slave.begin_anew(self.at), MessagesKept)
        self.assertIn("the clock was set lately", str(kept.value))
        self.assertEqual(slave.log_bounds(), bounds)
        self.env.clock.advance(700)
        self.now(slave.begin_anew(self.at))
        self.assert_follows(slave)
        self.stopped(slave)

    def test_expired_first_look(self) -> None:
        """A slave that has just started compares its clocks before it believes any age."""
        self.env.clock.advance(7200)
        slave = self.opened(
            self.env,
            small(replica=True, index=True, index_geometry=GEOMETRY, retention=RetentionRules(reserved=3600.0)),
        )
        kept = self.failureResultOf(slave.begin_anew(self.at), MessagesKept)
        self.assertIn("begun to compare its clocks", str(kept.value))
        self.env.clock.advance(60)
        self.now(slave.begin_anew(self.at))
        self.assert_follows(slave)
        self.stopped(slave)

    def test_nothing_expires(self) -> None:
        """A store that never removes anything keeps this, too."""
        self.env.clock.advance(1e7)
        slave = self.opened(self.env, replica())
        self.failureResultOf(slave.begin_anew(self.at), MessagesKept)
