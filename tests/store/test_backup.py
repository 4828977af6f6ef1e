"""Backups of running stores: a store that is opened on one has what was acknowledged before."""

from __future__ import annotations

import itertools
import json
import posixpath

import msgspec

from smartgo.errors import RequestRefused
from smartgo.schema.index import Geometry
from smartgo.store.backup import LANE, BackupState
from smartgo.store.backuppruning import ABOUT, BackupOptions
from smartgo.store.offline.storecheck import StoreCheck
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, held, killed, message, small

SETTINGS = small(disk_free_minimum=0, index=True, index_geometry=Geometry(50, 400))


class BackupTests(StoreTestCase):
    def setUp(self) -> None:
        """A store with some files of messages."""
        self.env = FakeEnvironment()
        self.env.files.make_directories(ROOT)
        self.store = self.opened(self.env, SETTINGS)
        self.sent = self.fill(self.store, 120, queues=3)
        self.addCleanup(lambda: self.stopped(self.store))

    def wait(self, store: OpenStore | None = None) -> None:
        """Let time pass until the backup has ended."""
        backup = (store or self.store).backup
        for _ in range(200):
            if backup.status is not None and backup.status.state is not BackupState.RUNNING:
                return
            self.env.clock.advance(0.1)
        self.fail("the backup does not end")

    def restored(self, name: str = "one") -> OpenStore:
        """A store that is opened on a backup, on another machine."""
        self.after = killed(self.env)
        for path in [one for one in self.after.files.files if not one.startswith(f"/backups/{name}/")]:
            del self.after.files.files[path]
        store = self.successResultOf(open_store(self.after, f"/backups/{name}", SETTINGS))
        self.addCleanup(lambda: self.successResultOf(store.close()))
        return store

    def all_bodies(self, store: OpenStore) -> list[bytes]:
        """All messages of T by their physical offsets."""
        found = [one for queue in range(3) for one in self.read_all(store, "T", queue)]
        return [bytes(one.body) for one in sorted(found, key=lambda one: one.physical_offset)]

    def test_restore(self) -> None:
        """A backup of a quiet store has all messages, tables and offsets; full log files are links."""
        self.env.files.make_directories(f"{ROOT}/config")
        self.env.files.create(f"{ROOT}/config/topics.json", b"{}")
        status = self.store.backup.begin("one")
        self.wait()
        self.assertEqual((status.state, status.error), (BackupState.DONE, ""))
        logs = [path for path in self.env.files.files if path.startswith(f"{ROOT}/commitlog/")]
        self.assertEqual(status.linked, len(logs) - 1)
        self.assertGreater(status.linked, 2)
        self.assertEqual(self.env.files.read("/backups/one/config/topics.json"), b"{}")
        about = json.loads(self.env.files.read(f"/backups/one/{ABOUT}"))
        self.assertEqual((about["name"], about["end"]), ("one", status.end))
        store = self.restored()
        self.assertEqual(self.all_bodies(store), self.sent)
        self.assertEqual([store.bounds("T", queue) for queue in range(3)], [(0, 40)] * 3)

    def test_cancel(self) -> None:
        """A backup that is cancelled says so, nothing of it is left, and the next one is as good as any."""
        self.store.backup.cancel()  # none runs
        self.env.threads.held.add(LANE)
        status = self.store.backup.begin("one")
        self.store.backup.cancel()
        self.assertEqual(status.state, BackupState.RUNNING)
        self.env.threads.held.clear()
        self.env.threads.release(LANE)
        self.wait()
        self.assertEqual((status.state, status.error), (BackupState.CANCELLED, ""))
        self.assertEqual([path for path in self.env.files.files if path.startswith("/backups/")], [])
        self.assertEqual(self.all_bodies(self.store), self.sent)
        self.store.backup.begin("one")
        self.wait()
        self.assertEqual(self.all_bodies(self.restored()), self.sent)

    def test_rate(self) -> None:
        """With a rate it copies no faster than that, tells its progress, and is as complete as any."""
        status = self.store.backup.begin("one", BackupOptions(rate=100))
        seen = []
        for _ in range(100_000):
            if status.state is not BackupState.RUNNING:
                break
            self.env.clock.advance(1.0)
            seen.append(status.done)
        self.assertEqual((status.state, status.done), (BackupState.DONE, status.size))
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(self.all_bodies(self.restored()), self.sent)

    def test_progress(self) -> None:
        """What is to be copied leaves out the holes of files, and at a low rate it goes on in small steps."""
        queue = f"{ROOT}/consumequeue/Sparse/0/00000000000000000000"
        self.env.files.make_directories(posixpath.dirname(queue))
        self.env.files.create_sparse(queue, 6_000_000)
        self.env.files.overwrite(queue, 5_000_000, b"x" * 40)
        status = self.store.backup.begin("one", BackupOptions(rate=1 << 14))
        seen = [0]
        for _ in range(2000):
            self.env.clock.advance(0.25)
            seen.append(status.done)
            if status.state is not BackupState.RUNNING:
                break
        self.assertEqual((status.state, status.done), (BackupState.DONE, status.size))
        self.assertLess(status.size, 1_000_000)
        self.assertLessEqual(max(new - old for old, new in itertools.pairwise(seen)), 2 * 4096)
        copied = self.env.files.read("/backups/one/consumequeue/Sparse/0/00000000000000000000")
        self.assertEqual((len(copied), copied[5_000_000:5_000_040]), (6_000_000, b"x" * 40))

    def test_topic_deleted(self) -> None:
        """A queue's file that vanishes while its pieces are copied is not in the backup, which goes on."""
        queue = f"{ROOT}/consumequeue/Gone/0/00000000000000000000"
        self.env.files.make_directories(posixpath.dirname(queue))
        self.env.files.create(queue, b"x" * 100_000)
        status = self.store.backup.begin("one", BackupOptions(rate=1 << 14))
        copy = "/backups/one/consumequeue/Gone/0/00000000000000000000"
        for _ in range(500):
            self.env.clock.advance(0.25)
            if self.env.files.exists(copy):
                break
        self.env.files.remove(queue)
        for _ in range(500):
            self.env.clock.advance(0.25)
        self.assertEqual((status.state, status.error), (BackupState.DONE, ""))
        self.assertFalse(self.env.files.exists(copy))

    def test_log_file_lost(self) -> None:
        """A log file that vanishes before it is copied ends the backup, whatever the log's directory is called."""
        self.stopped(self.store)

        def refuse(source: str, target: str) -> None:
            raise OSError(18, "another file system")

        for directory in ("/disk/commitlog", "/disk/log"):
            self.env = FakeEnvironment()
            self.patch(self.env.files, "link", refuse)
            self.env.files.make_directories(ROOT)
            self.store = self.opened(self.env, msgspec.structs.replace(SETTINGS, commitlog_directory=directory))
            self.fill(self.store, 120, queues=3)
            status = self.store.backup.begin("one", BackupOptions(rate=1 << 14))
            _, second, third, *_ = sorted(self.env.files.list(directory))
            for _ in range(500):
                self.env.clock.advance(0.25)
                if self.env.files.exists(f"/backups/one/commitlog/{second}"):
                    break
            self.env.files.remove(f"{directory}/{third}")
            self.wait()
            self.assertIs(status.state, BackupState.FAILED, directory)
            self.assertIn(third, status.error)

    def test_stopped_in_a_pause(self) -> None:
        """One that is stopped while it keeps to its rate fails with a sentence, and nothing waits."""
        status = self.store.backup.begin("one", BackupOptions(rate=1))
        self.env.clock.advance(0.5)
        self.successResultOf(self.store.close())
        self.assertNotEqual(status.state, BackupState.RUNNING)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_prune(self) -> None:
        """Complete backups of this store that are not wanted any more go, once the next one is complete."""
        files = self.env.files
        for name in ("one", "two", "three"):
            self.store.backup.begin(name)
            self.wait()
            self.env.clock.advance(3600.0)
        files.make_directories("/backups/broken")
        files.create("/backups/broken/x", b"")
        files.make_directories("/backups/other")
        files.create(f"/backups/other/{ABOUT}", b'{"name": "other", "store": "/elsewhere", "begun_ms": 0, "end": 0}')
        status = self.store.backup.begin("four", BackupOptions(keep=2))
        self.wait()
        self.assertEqual(status.removed, ["one", "two"])
        self.assertEqual(files.list("/backups"), ["broken", "four", "other", "three"])
        self.assertEqual(files.list("/backups/one"), [])
        status = self.store.backup.begin("five", BackupOptions(keep_seconds=3000.0))
        self.wait()
        self.assertEqual(status.removed, ["three"])
        self.assertEqual(self.all_bodies(self.restored("five")), self.sent)

    def test_while_sending(self) -> None:
        """While messages are sent at every step of a backup, it has those from before, in order, and a whole store."""
        for step in range(40):
            name = f"at-{step}"
            before = len(self.sent)
            with held(self.env, LANE):
                self.store.backup.begin(name)
                for number in range(60):
                    self.env.clock.advance(0.05)
                    if number >= step % 20:
                        self.sent += self.fill(self.store, 3, queues=3)
                    if number % 2:
                        self.env.threads.release(LANE, 1)
            self.wait()
            status = self.store.backup.status
            assert status is not None
            self.assertIs(status.state, BackupState.DONE, status.error)
            if step % 8:
                continue
            store = self.restored(name)
            found = self.all_bodies(store)
            self.assertGreaterEqual(len(found), before)
            self.assertEqual(found, self.sent[: len(found)])
            self.successResultOf(store.close())
            check = StoreCheck(self.after.files, f"/backups/{name}", SETTINGS).run()
            self.assertEqual([one for one in check.findings if one.weight == "damage"], [])

    def test_not_linked(self) -> None:
        """On another file system everything is copied."""

        def refuse(source: str, target: str) -> None:
            raise OSError(18, "another file system")

        self.patch(self.env.files, "link", refuse)
        status = self.store.backup.begin("one")
        self.wait()
        self.assertEqual((status.state, status.linked), (BackupState.DONE, 0))
        self.assertEqual(self.all_bodies(self.restored()), self.sent)

    def test_deleted_topic(self) -> None:
        """A topic that was deleted stays deleted in the copy."""
        self.send(self.store, message("U", 0, b"other"))
        self.now(self.store.delete_topic("T"))
        self.store.backup.begin("one")
        self.wait()
        store = self.restored()
        self.assertEqual(self.all_bodies(store), [])
        self.assertEqual(self.bodies(store, "U"), [b"other"])

    def test_refused(self) -> None:
        """A bad or a taken name, and a second backup beside a running one, are refused; nothing is made."""
        for name in ("../x", "", ".hidden", "a/b", "x" * 101, "a\n"):
            self.assertRaises(RequestRefused, self.store.backup.begin, name)
        self.assertEqual(self.env.files.list("/backups"), [])
        with held(self.env, LANE):
            self.store.backup.begin("one")
            self.assertIn("is running", str(self.assertRaises(RequestRefused, self.store.backup.begin, "two")))
        self.wait()
        self.assertIn("there is a backup", str(self.assertRaises(RequestRefused, self.store.backup.begin, "one")))

    def test_no_room(self) -> None:
        """A backup that would fill the disk fails, and the store goes on."""
        self.stopped(self.store)
        self.env.files.free = (1 << 30) + 100_000
        self.store = self.opened(self.env, small(disk_free_minimum=1 << 30))
        self.env.files.free = (1 << 30) + 1000
        status = self.store.backup.begin("one")
        self.wait()
        self.assertIs(status.state, BackupState.FAILED)
        self.assertIn(" are free, of which it must leave ", status.error)
        self.assertFalse(self.env.files.exists(posixpath.join("/backups/one", ABOUT)))

    def test_close(self) -> None:
        """A store that is closed ends a running backup first."""
        with held(self.env, LANE):
            status = self.store.backup.begin("one")
            closing = self.store.close()
            self.assertNoResult(closing)
        self.env.clock.advance(1)
        self.successResultOf(closing)
        self.assertIs(status.state, BackupState.FAILED)
        self.assertRaises(RequestRefused, self.store.backup.begin, "two")
