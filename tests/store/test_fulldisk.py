"""A store on a real file system that is full: tmpfs, and ext4 in a file. Both are mounted, which needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import SkipTest, TestCase

from smartgo.env.real import RealEnvironment
from smartgo.errors import ServiceNotAvailable
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.interfaces import ReadLimit, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings
from tests.store.stores import message, records

MIB = 1 << 20
DISK = 64 * MIB
BODY = b"." * 8192


class MountedCase(TestCase):
    """With a small file system."""

    timeout = 120
    kind = "tmpfs"

    def setUp(self) -> None:
        """Mount it, or skip."""
        if os.geteuid() != 0:
            raise SkipTest("mounting a file system needs root")
        self.root = os.path.abspath(self.mktemp())
        os.makedirs(self.root)
        self.mount()
        self.addCleanup(subprocess.run, ["umount", "-l", self.root], check=False)
        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)

    def mount(self) -> None:
        """Mount a tmpfs."""
        self.run_as_root("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.root)

    def run_as_root(self, *words: str) -> None:
        """Run a command; skip where this machine does not let us."""
        if shutil.which(words[0]) is None:
            raise SkipTest(f"{words[0]} is not installed")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SkipTest(f"{words[0]} is not possible here: {done.stderr.strip()}")

    async def start(self, **rules: Any) -> OpenStore:
        """An open store that looks after its files often."""
        values: dict[str, Any] = {"free_minimum": 0, "interval": 0.05, "file_pause": 0.0, **rules}
        settings = StoreSettings(
            log_file_size=MIB,
            queue_file_size=20_000,
            disk_free_minimum=0,
            flush_interval=0.01,
            checkpoint_interval=0.01,
            retry_interval=0.1,
            retention=RetentionRules(**values),
        )
        store = await open_store(self.env, os.path.join(self.root, "store"), settings)
        self.addCleanup(store.close)
        return store

    async def wait(self, seconds: float) -> None:
        """Let the store work."""
        await deferLater(reactor, seconds, lambda: None)

    def send(self, store: OpenStore, number: int) -> None:
        """Send a message of 8 KiB."""
        store.append([message(body=b"%d" % number + BODY)])
        store.end_run()

    def is_refused(self, store: OpenStore, number: int) -> bool:
        """Send a message; return whether it was refused."""
        try:
            self.send(store, number)
        except ServiceNotAvailable:
            return True
        return False

    async def numbers(self, store: OpenStore) -> list[int]:
        """The numbers of all messages that are left."""
        found: list[int] = []
        offset = store.bounds("T", 0)[0]
        while True:
            result = await store.read_cold("T", 0, offset, ReadLimit(32, MIB), None)
            if result.status is not ReadStatus.FOUND:
                return found
            found += [int(bytes(one.body).partition(b".")[0]) for one in records(result)]
            offset = result.next_offset

    def used(self) -> float:
        """The share of the disk in use."""
        total, free = self.env.files.usage(self.root)
        return 1 - free / total


class TmpfsTests(MountedCase):
    """On tmpfs."""

    async def test_filled_by_others(self) -> None:
        """Sends are soon refused, reads go on; when there is room again sends go on, and nothing is lost."""
        store = await self.start()
        for number in range(500):
            self.send(store, number)
        await store.flush()
        others = os.path.join(self.root, "others")
        with open(others, "wb") as file:
            try:
                while True:
                    file.write(bytes(MIB))
                    file.flush()
            except OSError:
                pass  # the disk is full
        sent = 500
        while not self.is_refused(store, sent):
            sent += 1
            await self.wait(0.01)
        refusal = store.refusal
        assert refusal is not None
        self.assertIn(refusal.kind, (RefusalKind.DISK_FULL, RefusalKind.NO_ROOM))
        self.assertEqual(await self.numbers(store), list(range(sent)))
        await store.cleaner.clean(expired=False)
        self.assertEqual(store.log_bounds()[0], 0)  # no message goes for files of others
        os.remove(others)
        while store.refusal is not None:
            await self.wait(0.01)
        self.send(store, sent)
        self.assertEqual(await self.numbers(store), list(range(sent + 1)))

    async def test_retention_makes_room(self) -> None:
        """A log of twice the size of the disk goes through it; it is never full, and takes all of it."""
        store = await self.start()
        most, descriptors = 0.0, []
        for number in range(17_000):
            while self.is_refused(store, number):  # a disk that is slower than this loop
                await self.wait(0.05)
            if number % 32 == 31:
                await self.wait(0.012)
                most = max(most, self.used())
                descriptors.append(self.env.host.open_files())
        self.assertGreater(store.log_bounds()[1], 2 * DISK)
        self.assertLess(most, 0.95)
        store.cleaner.change_rules(None)
        await store.cleaner.clean()  # what is under way ends, and nothing goes any more
        first, end = store.bounds("T", 0)
        self.assertEqual((end, await self.numbers(store)), (17_000, list(range(first, 17_000))))
        self.assertLess(max(descriptors[200:]), max(descriptors[:200]) + 20)

    async def test_restarted_on_a_full_disk(self) -> None:
        """A store that is opened on a full disk can be read, and makes room by itself."""
        store = await self.start(forcible=False)
        sent = 0
        while not self.is_refused(store, sent):
            sent += 1
            if sent % 32 == 0:
                await self.wait(0.005)
        self.assertEqual(await self.numbers(store), list(range(sent)))
        await store.close()
        store = await self.start()
        self.assertEqual(store.bounds("T", 0), (0, sent))
        while store.refusal is not None or not store.log_bounds()[0] or self.used() > 0.86:
            await store.cleaner.clean(expired=False)
        self.send(store, sent)
        first = store.bounds("T", 0)[0]
        self.assertEqual(await self.numbers(store), list(range(first, sent + 1)))


class Ext4Tests(TmpfsTests):
    """On ext4, in a file."""

    def mount(self) -> None:
        """Make a file system in a file, and mount it."""
        image = self.root + ".img"
        with open(image, "wb") as file:
            file.truncate(DISK)
        self.run_as_root("mkfs.ext4", "-q", "-m", "0", image)
        self.run_as_root("mount", "-o", "loop", image, self.root)
