"""Tests of L{smartgo.store.openstore} and L{smartgo.store.opening}: a store's life, and the deletion of topics."""

from __future__ import annotations

import errno
import posixpath
from typing import Any

from twisted.internet.defer import Deferred

from smartgo.errors import ServiceNotAvailable, StoreHeld
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.checkpoint import CheckpointFiles
from smartgo.store.interfaces import PutStatus, ReadLimit, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.refusal import Refusal
from smartgo.store.storelayout import DELETED
from tests.fakes import FakeEnvironment, FakeFile
from tests.store.stores import ROOT, StoreTestCase, content, held, killed, message, power_off, small


class LifeTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def nothing_left(self) -> None:
        """No call, no mapping, no lock."""
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual((self.env.files.mappings, self.env.files.locks), ([], set()))

    def test_new(self) -> None:
        """A store makes its directory; in it lie RocketMQ's files, and ours beside them."""
        self.opened(self.env)
        self.assertEqual(
            self.env.files.list(ROOT),
            ["abort", "checkpoint", "commitlog", "consumequeue", "lock", "smartgo.checkpoint", "smartgo.deleted",
             "smartgo.queues", "smartgo.spare"],
        )  # fmt: skip
        self.assertEqual(bytes(self.env.files.files[f"{ROOT}/lock"].data), b"lock")

    def test_idle(self) -> None:
        """An open store that is not used has no call pending, whatever the time."""
        store = self.opened(self.env)
        self.env.clock.advance(100)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.fill(store, 10)
        self.env.clock.pump([0.5] * 6)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_held_back(self) -> None:
        """A store that is held back refuses messages for that reason, and still serves reads."""
        store = self.opened(self.env)
        sent = self.fill(store, 3)
        store.hold_back("another is the master")
        error = self.assertRaises(ServiceNotAvailable, store.append, [message()])
        self.assertEqual((str(error), self.bodies(store)), ("another is the master", sent))
        self.assertEqual(store.refusal, Refusal(RefusalKind.NOT_MASTER, "another is the master"))
        store.hold_back(None)
        self.assertIsNone(store.refusal)
        self.fill(store, 1)
        self.assertEqual(len(self.bodies(store)), 4)

    def test_stop(self) -> None:
        """After a stop nothing is left, everything is on the disk, and calls that come late do no harm."""
        store = self.opened(self.env)
        sent = self.fill(store, 60)
        store.append([message(body=b"of an open run")])
        self.stopped(store)
        self.nothing_left()
        self.assertRaises(ServiceNotAvailable, store.append, [message()])
        store.end_run()
        self.assertEqual(store.read("T", 0, 0, ReadLimit(), None).status, ReadStatus.NO_MATCHED_LOGIC_QUEUE)
        self.assertEqual(self.now(store.flush()), PutStatus.FLUSH_DISK_TIMEOUT)
        self.assertEqual((store.bounds("T", 0), list(store.queues())), ((0, 0), []))
        self.nothing_left()
        after = self.opened(power_off(self.env))
        self.assertEqual(self.bodies(after), [*sent, b"of an open run"])

    def test_stop_twice(self) -> None:
        """A second stop waits for the first."""
        store = self.opened(self.env)
        self.fill(store, 5)
        with held(self.env, "flush"):
            waits = [store.close(), store.close()]
            for one in waits:
                self.assertNoResult(one)
        for one in waits:
            self.successResultOf(one)
        self.stopped(store)

    def test_held(self) -> None:
        """A directory that another process has is left as it is (S13)."""
        self.opened(self.env)
        before = {path: bytes(file.data) for path, file in self.env.files.files.items()}
        self.assertEqual(self.failureResultOf(open_store(self.env, ROOT, small()), StoreHeld).value.pid, 4711)
        self.same({path: bytes(file.data) for path, file in self.env.files.files.items()}, before)
        self.assertIn(ROOT, self.env.files.locks)

    def test_opening_fails_late(self) -> None:
        """Whatever fails while a store opens, nothing stays open."""
        self.fill(self.opened(self.env), 50)
        for method in ("usage", "remove", "list", "map", "make_directories"):
            self.env = killed(self.env)

            def fail(*args: Any, **named: Any) -> Any:
                raise OSError(errno.EIO, "Input/output error")

            original = getattr(self.env.files, method)
            setattr(self.env.files, method, fail)
            self.failureResultOf(open_store(self.env, ROOT, small()), OSError)
            self.nothing_left()
            setattr(self.env.files, method, original)
            self.env.files.locks.clear()

    def test_few_descriptors(self) -> None:
        """However many queues there are, no more files are open than allowed, and all is served (L19)."""
        store = self.opened(self.env, small(open_mappings=20))
        for number in range(200):
            self.send(store, message(queue_id=number % 100, body=b"%d" % number))
        self.assertLessEqual(len(self.env.files.mappings), 20 + 3)  # the checkpoints' two, and a spare file
        for queue_id in range(100):
            self.assertEqual(self.bodies(store, queue_id=queue_id), [b"%d" % queue_id, b"%d" % (queue_id + 100)])
        self.env.clock.pump([0.5] * 4)
        self.assertLessEqual(len(self.env.files.mappings), 100 + 5)
        after = self.opened(power_off(self.env), small(open_mappings=20))
        self.assertEqual(len(list(after.queues())), 100)

    def test_descriptor_limit(self) -> None:
        """A small limit of the process lowers how many files are open."""
        self.patch(self.env.host, "open_file_limit", lambda: 256)
        store = self.opened(self.env)
        for number in range(100):
            self.send(store, message(queue_id=number))
        self.assertLessEqual(len(self.env.files.mappings), 32 + 3)

    def test_queues(self) -> None:
        """The queues that have messages are listed, with their bounds; the log has bounds too."""
        store = self.opened(self.env)
        self.fill(store, 10, "T", 2)
        self.fill(store, 3, "U")
        store.append([message("V")])
        self.assertEqual(sorted(store.queues()), [("T", 0), ("T", 1), ("U", 0)])
        self.assertEqual([store.bounds("T", 1), store.bounds("U", 0), store.bounds("V", 0)], [(0, 5), (0, 3), (0, 0)])
        self.assertEqual(store.units("none", 0, 0, 5), [])
        self.assertEqual(store.log_bounds()[0], 0)


class DeleteTests(StoreTestCase):
    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.store = self.opened(self.env)
        self.kept = self.fill(self.store, 30, "Keep")
        self.fill(self.store, 100, "T", 3)

    def deleted(self, topic: str = "T") -> None:
        """Delete a topic."""
        self.successResultOf(self.store.delete_topic(topic))

    def test_gone(self) -> None:
        """The queues of a deleted topic are gone, with their files; the records, and other topics, stay."""
        end = self.store.log_bounds()
        self.deleted()
        self.assertEqual(list(self.store.queues()), [("Keep", 0)])
        self.assertEqual(self.store.read("T", 0, 0, ReadLimit(), None).status, ReadStatus.NO_MATCHED_LOGIC_QUEUE)
        self.assertEqual(self.env.files.list(f"{ROOT}/consumequeue"), ["Keep"])
        self.assertEqual(self.env.files.list(f"{ROOT}/smartgo.deleted"), [])
        self.assertEqual(self.store.log_bounds(), end)
        self.assertEqual(self.bodies(self.store, "Keep"), self.kept)
        self.deleted("never there")

    def test_anew(self) -> None:
        """A topic of that name begins again at 0, at once; what it had is not in it, after any kind of restart."""
        with held(self.env, "checkpoint", "prepare"):
            waiting = self.store.delete_topic("T")
            self.send(self.store, message(body=b"new"))
            self.assertEqual(self.bodies(self.store), [b"new"])
        self.successResultOf(waiting)
        self.send(self.store, message(body=b"life"))
        self.env.clock.advance(2)
        self.assertEqual(self.bodies(self.opened(killed(self.env))), [b"new", b"life"])
        without_queues = killed(self.env)
        for path in content(without_queues, "consumequeue"):
            del without_queues.files.files[path]
        store = self.opened(without_queues)
        self.assertEqual(self.bodies(store), [b"new", b"life"])
        self.assertEqual(self.bodies(store, "Keep"), self.kept)
        self.stopped(store)
        self.assertEqual(self.bodies(self.opened(without_queues)), [b"new", b"life"])

    def test_stays_gone(self) -> None:
        """Once the deletion is done, no restart brings the topic back, though its records are in the log."""
        self.deleted()
        for env in (killed(self.env), power_off(self.env)):
            store = self.opened(env)
            self.assertEqual(list(store.queues()), [("Keep", 0)])
            self.stopped(store)
            self.assertEqual(list(self.opened(env).queues()), [("Keep", 0)])
        self.stopped(self.store)
        self.assertEqual(list(self.opened(self.env).queues()), [("Keep", 0)])

    def test_killed_meanwhile(self) -> None:
        """A kill in the middle leaves the topic whole or gone, and the next start tidies up."""
        for lane in ("checkpoint", "prepare"):
            env = killed(self.env)
            store = self.opened(env)
            env.threads.held.add(lane)
            store.delete_topic("T")
            after = killed(env)
            env.threads.held.clear()
            env.threads.release(lane)
            store = self.opened(after)
            self.assertIn([store.bounds("T", number)[1] for number in range(3)], ([0, 0, 0], [34, 33, 33]))
            self.assertEqual(after.files.list(f"{ROOT}/smartgo.deleted"), [])
            self.assertEqual(self.bodies(store, "Keep"), self.kept)

    def test_pending(self) -> None:
        """Messages that wait for their flush when the topic goes are not published."""
        self.stopped(self.store)
        self.store = self.opened(self.env, small(sync_flush=True))
        self.env.threads.held.add("flush")
        self.send(self.store, message(), message("Keep", body=b"kept"))
        waiting = self.store.delete_topic("T")
        self.env.threads.held.clear()
        self.env.threads.release("flush")
        self.successResultOf(waiting)
        self.assertEqual((self.store.bounds("T", 0), self.store.bounds("Keep", 0)), ((0, 0), (0, 31)))

    def test_while_syncing(self) -> None:
        """A checkpoint that has the topic's files in hand goes through, and the files go afterwards."""
        self.send(self.store, *[message()] * 30)
        self.env.threads.held.add("checkpoint")
        self.env.clock.advance(1.5)
        waiting = self.store.delete_topic("T")
        self.assertNoResult(waiting)
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.successResultOf(waiting)
        self.assertIsNone(self.store.refusal)
        self.stopped(self.store)
        self.assertEqual(self.env.files.mappings, [])

    def test_stop_meanwhile(self) -> None:
        """A stop waits for deletions."""
        self.env.threads.held.add("prepare")
        deleting = self.store.delete_topic("T")
        stopping = self.store.close()
        self.assertNoResult(stopping)
        self.env.threads.held.clear()
        self.env.threads.release("prepare")
        self.successResultOf(deleting)
        self.successResultOf(stopping)
        self.assertEqual((self.env.files.list(f"{ROOT}/smartgo.deleted"), self.env.files.mappings), ([], []))

    def test_stopping(self) -> None:
        """A store that stops deletes nothing more: the topic is there at the next start."""
        self.env.threads.held.add("checkpoint")
        stopping = self.store.close()
        self.failureResultOf(self.store.delete_topic("T"), ServiceNotAvailable)
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.successResultOf(stopping)
        self.failureResultOf(self.store.delete_topic("T"), ServiceNotAvailable)
        self.assertEqual(self.opened(self.env).bounds("T", 0), (0, 34))

    def test_fails(self) -> None:
        """A deletion that the disk refuses says so; the topic is gone all the same."""
        rename = self.env.files.rename

        def refuse(source: str, target: str) -> None:
            if source.endswith("/T/1"):
                raise OSError(errno.EIO, "Input/output error")
            rename(source, target)

        self.patch(self.env.files, "rename", refuse)
        failed: Deferred[None] = self.store.delete_topic("T")
        self.failureResultOf(failed, OSError)
        self.assertEqual(list(self.store.queues()), [("Keep", 0)])

    def test_forgotten(self) -> None:
        """That a topic was deleted is remembered as long as its records can be in the log."""
        self.deleted()
        end = self.store.log_bounds()[1]
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        self.assertEqual(table.deleted, {"T": end})
        while self.store.log_bounds()[1] < end + 8192:
            self.send(self.store, message("Keep"))
        files = self.store._commitlog.files.files
        while files[0].base < end:
            del files[0]
        self.deleted("Keep")
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        self.assertEqual(list(table.deleted), ["Keep"])

    def test_killed_before_the_table(self) -> None:
        """
        A topic used anew and killed before the table of queues is saved has its new messages, from 0 on, and no others.
        """
        for sync_flush in (False, True):
            for late in ("held", "no room"):
                for count in range(4):
                    with self.subTest(sync_flush=sync_flush, late=late, count=count):
                        self.check_killed_before_the_table(sync_flush, late, count)

    def check_killed_before_the_table(self, sync_flush: bool, late: str, count: int) -> None:
        """@param late: why the table is not saved yet."""
        self.env.clock.advance(2)
        env = killed(self.env)
        store = self.opened(env, small(sync_flush=sync_flush))
        if late == "held":
            env.threads.held.add("checkpoint")
        else:
            env.files.fail[f"{ROOT}/smartgo.queues"] = errno.ENOSPC
        deleting = store.delete_topic("T")
        self.assertEqual(deleting.called, late == "no room")
        new = [b"new %d" % number for number in range(count)]
        self.send(store, *[message(body=body) for body in new])
        self.assertEqual(self.bodies(store), new)
        machines = [killed(env)]
        if sync_flush:
            machines.append(power_off(env))
        for machine in machines:
            for how in ("killed", "stopped"):
                machine.files.fail.clear()
                after = self.opened(machine, small(sync_flush=sync_flush))
                self.assertEqual([after.bounds("T", number) for number in range(3)], [(0, count), (0, 0), (0, 0)], how)
                self.assertEqual((self.bodies(after), self.bodies(after, "Keep")), (new, self.kept))
                self.assertEqual(machine.files.list(f"{ROOT}/smartgo.deleted"), [])
                if how == "stopped":
                    self.stopped(after)
                machine = killed(machine)
            after = self.opened(machine)
            self.send(after, message(body=b"more"))
            self.assertEqual(self.bodies(after), [*new, b"more"])
        env.threads.held.clear()
        env.threads.release("checkpoint")

    def test_again_before_the_table(self) -> None:
        """What counts is the last of several deletions that the table of queues does not hold."""
        self.env.clock.advance(2)
        self.env.threads.held.add("checkpoint")
        for number in range(3):
            self.store.delete_topic("T")
            self.send(self.store, message(body=b"%d" % number))
        env = killed(self.env)
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.assertEqual(self.env.files.list(f"{ROOT}/smartgo.deleted"), [])
        for _ in range(2):
            store = self.opened(env)
            self.assertEqual(self.bodies(store), [b"2"])
            env = killed(env)

    def test_deleted_while_the_table_is_written(self) -> None:
        """A table of queues that a thread is about to write does not learn of a deletion without its queues."""
        self.env.clock.advance(2)
        self.env.threads.held.add("checkpoint")
        self.send(self.store, message("New"))
        self.env.clock.advance(2)
        self.assertEqual(len(self.env.threads.waiting["checkpoint"]), 1)
        deleting = self.store.delete_topic("T")
        self.env.threads.release("checkpoint", 1)
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        self.assertIn("New", {entry.topic for entry in table.queues})
        self.assertEqual(table.deleted, {})
        store = self.opened(killed(self.env))
        self.assertEqual([store.bounds("T", number) for number in range(3)], [(0, 0)] * 3)
        self.env.threads.held.clear()
        self.env.threads.release("checkpoint")
        self.now(deleting)

    def test_twice_at_once(self) -> None:
        """A second deletion of a topic is not done before the first one is durable, and fails with it."""
        for error in (0, errno.EIO):
            with held(self.env, "flush"):
                first, second = self.store.delete_topic("T"), self.store.delete_topic("T")
                other = self.store.delete_topic("never there")
                self.assertEqual((first.called, second.called, other.called), (False, False, True))
                self.env.files.sync_error = error
            self.env.files.sync_error = 0
            if not error:
                self.now(first)
                self.now(second)
                self.send(self.store, message())
            else:
                self.failureResultOf(first, OSError)
                self.failureResultOf(second, OSError)

    def test_failed_store(self) -> None:
        """A failed store deletes nothing: that would not be durable either."""
        self.env.files.sync_error = errno.EIO
        self.send(self.store, message())
        self.now(self.store.flush())
        self.env.files.sync_error = 0
        before = self.store.bounds("T", 1)
        self.failureResultOf(self.store.delete_topic("T"), ServiceNotAvailable)
        self.assertEqual(self.store.bounds("T", 1), before)

    def test_unfinished_and_forgotten(self) -> None:
        """
        Where a power failure took a deletion that nothing durable depends on, the queue is without a hole.

        The log may have kept messages of the new topic all the same, and the table of queues knows the old one only.
        """
        self.env.clock.advance(2)
        self.env.threads.held.update(("checkpoint", "flush"))
        self.store.delete_topic("T")
        self.send(self.store, message(body=b"a"), message(body=b"b"))
        env = killed(self.env)
        env.files.remove(f"{ROOT}/smartgo.deleted/1.mark")
        store = self.opened(env)
        self.assertEqual(self.bodies(store), [b"a", b"b"])
        self.assertEqual(store.bounds("T", 0), (0, 2))
        self.env.threads.held.clear()
        for lane in ("flush", "checkpoint"):
            self.env.threads.release(lane)

    def test_no_room_to_delete(self) -> None:
        """A deletion that cannot be written down fails, and the topic is what it was."""
        before = self.bodies(self.store)
        self.env.files.fail[f"{ROOT}/smartgo.deleted/1.mark"] = errno.ENOSPC
        self.failureResultOf(self.store.delete_topic("T"), OSError)
        self.assertEqual(self.bodies(self.store), before)
        self.assertEqual(self.bodies(self.opened(killed(self.env))), before)
        self.env.files.fail.clear()
        self.deleted()
        self.assertEqual(self.store.bounds("T", 0), (0, 0))

    def test_deletion_not_durable(self) -> None:
        """A deletion that fails to become durable fails the store: a later flush would prove nothing."""
        self.env.threads.held.add("flush")
        waiting = self.store.delete_topic("T")
        self.env.files.sync_error = errno.EIO
        self.env.threads.held.clear()
        self.env.threads.release("flush")
        self.failureResultOf(waiting, OSError)
        self.assertRaises(ServiceNotAvailable, self.store.append, [message()])
        self.env.files.sync_error = 0

    def test_durable_before_the_log(self) -> None:
        """A power failure leaves no flushed message of the new topic without the deletion."""
        self.stopped(self.store)
        store = self.store = self.opened(self.env, small(sync_flush=True))
        self.env.threads.held.update(("flush", "checkpoint", "prepare"))
        self.env.files.synced_directories.clear()
        store.delete_topic("T")
        appended = store.append([message(body=b"new")])
        store.end_run()
        waiting = store.durable(appended)
        assert waiting is not None
        while not waiting.called:
            self.assertEqual(self.env.threads.release("flush", 1), 1)
        self.assertEqual(self.successResultOf(waiting), PutStatus.OK)
        self.assertIn(posixpath.join(ROOT, DELETED), self.env.files.synced_directories)  # the name of its file, too
        self.assertEqual(self.bodies(self.opened(power_off(self.env))), [b"new"])
        self.env.threads.held.clear()
        for lane in ("flush", "checkpoint", "prepare"):
            self.env.threads.release(lane)

    def test_files_come_back(self) -> None:
        """Where the move of a deleted topic's files did not become durable, they are removed at the next start."""
        queues = content(self.env, "consumequeue/T")
        self.deleted()
        for new in ([], [b"new"]):
            self.send(self.store, *[message(body=body) for body in new])
            env = killed(self.env)
            for path in content(env, "consumequeue/T"):
                del env.files.files[path]
            for path, data in queues.items():
                env.files.make_directories(posixpath.dirname(path))
                env.files.files[path] = FakeFile(data, 0)
            for _ in range(2):
                store = self.opened(env)
                self.assertEqual(self.bodies(store), new)
                self.assertEqual([store.bounds("T", number)[1] for number in (1, 2)], [0, 0])
                self.assertEqual(self.bodies(store, "Keep"), self.kept)
                env = killed(env)

    def test_log_cut_below(self) -> None:
        """
        A power failure that takes the log's end at a deletion leaves a topic that keeps what it is sent next.

        The deletion may be durable before the unflushed records that it is behind.
        """
        for table in (False, True):
            env = FakeEnvironment()
            settings = small(sync_flush=True)
            store = self.opened(env, settings)
            self.send(store, message(body=b"old"))
            with held(env, "flush"):
                self.send(store, *[message("X", body=b"x" * 400)] * 3)
                mark = store.log_bounds()[1]
                deleting = store.delete_topic("T")
                if table:  # the lane of flushes is slow, yet the mark got to the disk
                    env.files.files[f"{ROOT}/smartgo.deleted/1.mark"].synced = env.files.read(
                        f"{ROOT}/smartgo.deleted/1.mark"
                    )
                else:
                    CheckpointFiles(env.files, ROOT).save_table(store._checkpointer._table(store._dispatch.end))
                after = power_off(env)
            self.now(deleting)
            store = self.opened(after, settings)
            self.assertLess(store.log_bounds()[1], mark)
            for number in range(3):
                self.send(store, message(body=b"new %d" % number))
            self.assertLess(store.log_bounds()[1], mark)
            for _ in range(2):
                after = killed(after)
                store = self.opened(after, settings)
                self.assertEqual(self.bodies(store), [b"new 0", b"new 1", b"new 2"])

    def test_marks_go_durably(self) -> None:
        """
        The file of a deletion is gone for good before anything is appended: it may tell of more than the log has now.
        """
        self.env.threads.held.add("checkpoint")
        waiting = self.store.delete_topic("T")
        env = killed(self.env)
        self.assertIn("1.mark", env.files.list(f"{ROOT}/smartgo.deleted"))
        self.opened(env)
        self.assertIn(f"{ROOT}/smartgo.deleted", env.files.synced_directories)
        self.env.threads.held.clear()
        self.env.files.synced_directories.clear()
        self.env.threads.release("checkpoint")
        self.now(waiting)
        self.assertEqual(self.env.files.synced_directories[-1], f"{ROOT}/smartgo.deleted")

    def test_log_cut_below_and_no_room(self) -> None:
        """Where that cannot be saved the store does not open: it would lose what it is sent."""
        self.env.clock.advance(2)
        self.deleted()
        table = CheckpointFiles(self.env.files, ROOT).load_table()
        assert table is not None
        table.deleted["T"] += 100
        CheckpointFiles(self.env.files, ROOT).save_table(table)
        env = killed(self.env)
        env.files.fail[f"{ROOT}/smartgo.queues"] = errno.ENOSPC
        self.failureResultOf(open_store(env, ROOT, small()), OSError)
        env.files.fail.clear()
        self.assertEqual(self.bodies(self.opened(env), "Keep"), self.kept)
