"""Tests of L{smartgo.store.index.messageindex} and L{smartgo.store.index.recovery}, through a store."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from functools import partial, partialmethod
from random import Random
from typing import Any

from smartgo.errors import ForeignFile
from smartgo.schema import indexkeys
from smartgo.schema.index import FIRST_ENTRY, HEADER_SIZE, Geometry, IndexHeader, file_name, key_hash, key_text
from smartgo.schema.message import ROLLBACK, NewMessage
from smartgo.schema.properties import encode
from smartgo.schema.record import decode
from smartgo.store.index import indexfile, indexspace
from smartgo.store.index import messageindex as index
from smartgo.store.index.messageindex import MessageIndex
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from tests import golden_store
from tests.fakes import BLOCK, EPOCH_MS, FakeEnvironment, FakeFile, FakeMapping
from tests.store.stores import ROOT, StoreTestCase, content, held, killed, message, power_off, small, with_golden

GEOMETRY = Geometry(16, 32)
GOLDEN = Geometry(golden_store.INDEX_SLOTS, golden_store.INDEX_ENTRIES)
FOREVER = (0, 1 << 62)


def indexed(**changes: object) -> StoreSettings:
    """Settings of a store with an index whose files are soon full."""
    return small(**{"index": True, "index_geometry": GEOMETRY, **changes})


def golden(**changes: object) -> StoreSettings:
    """Settings of a golden store."""
    sizes = {"log_file_size": golden_store.LOG_SIZE, "queue_file_size": golden_store.QUEUE_SIZE}
    return indexed(**{**sizes, "index_geometry": GOLDEN, **changes})


def keyed(number: int, *words: str, topic: str = "T", **changes: object) -> NewMessage:
    """A message with a unique key, and keys."""
    pairs = {"UNIQ_KEY": f"U{number:06d}"}
    if words:
        pairs["KEYS"] = " ".join(words)
    return message(topic, 0, b"%d" % number, properties=encode(pairs), **changes)


def index_of(store: OpenStore) -> MessageIndex:
    """The index of a store that keeps one."""
    found = store._index
    assert found is not None
    return found


_reserve, _sync = FakeMapping.reserve, FakeMapping.sync


def _no_space(mapping: FakeMapping, begin: int, end: int) -> None:
    if "/index/" in mapping.path:
        raise OSError(28, "No space left on device")
    _reserve(mapping, begin, end)


class IndexTestCase(StoreTestCase):
    """Tests of stores with an index."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()

    def settle(self, env: FakeEnvironment | None = None) -> None:
        """Let the index catch up."""
        for _ in range(400):
            (env or self.env).clock.advance(0.1 if _ == 0 else 0)

    def put(self, store: OpenStore, numbers: Sequence[int], *words: str, topic: str = "T") -> list[int]:
        """Append messages with keys, a millisecond apart; return their offsets."""
        offsets = []
        for number in numbers:
            offsets += self.send(store, keyed(number, *words, topic=topic))
            self.env.clock.advance(0.001)
        return offsets

    def find(
        self, store: OpenStore, key: str, topic: str = "T", count: int = 64, span: tuple[int, int] = FOREVER
    ) -> list[int]:
        """The physical offsets of the messages that a search finds and that really have the key."""
        waiting = store.query(topic, key, count, *span)
        for _ in range(1000):
            if waiting.called:
                break
            self.env.clock.advance(0)
        found = []
        for record in self.now(waiting).records:
            one = decode(record)
            words = one.properties.replace(b"\x02", b" ").replace(b"\x01", b" ").decode().split(" ")
            if one.topic == topic and key in words:
                found.append(one.physical_offset)
        return found

    def files(self, env: FakeEnvironment) -> dict[str, bytes]:
        """The index files, by name; nothing was written where they have no blocks (reliability S1)."""
        for path, file in env.files.files.items():
            if "/index/" in path:
                written = [one for one in file.holes if any(file.data[one * BLOCK : one * BLOCK + BLOCK])]
                self.assertEqual(written, [])
        return {posixpath.basename(path): data for path, data in content(env, "index").items()}

    def entries(self, env: FakeEnvironment, geometry: Geometry = GEOMETRY) -> list[tuple[int, int]]:
        """All entries of all files, as (hash, physical offset), oldest first."""
        found = []
        for _, data in sorted(self.files(env).items()):
            for number in range(FIRST_ENTRY, IndexHeader.unpack(data).index_count):
                at = geometry.entry_at(number)
                found.append((int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 12], "big")))
        return found


class GoldenTests(IndexTestCase):
    """The index of a real broker's store."""

    def made_anew(self, name: str) -> FakeEnvironment:
        """Open a golden store without its index, have it made, and close it."""
        env = self.env = with_golden(name)
        for path in content(env, "index"):
            env.files.remove(path)
        store = self.opened(env, golden())
        self.settle(env)
        self.assertEqual(store.index_behind, 0)
        self.stopped(store)
        return env

    def test_same_bytes(self) -> None:
        """Made of the same messages, each index file has the bytes of the real broker's."""
        for name in golden_store.NAMES:
            for numpy in (True, False):
                if not numpy:
                    for module in (indexkeys, indexfile):
                        self.patch(module, "FEWEST", 1 << 30)
                env = self.made_anew(name)
                wanted = [data for _, data in golden_store.read(name).below("index")]
                found = [data for _, data in sorted(self.files(env).items())]
                self.assertEqual(
                    [IndexHeader.unpack(data) for data in found], [IndexHeader.unpack(data) for data in wanted]
                )
                self.assertEqual(found, wanted)

    def test_untouched(self) -> None:
        """A store that was closed by the real broker keeps its index files as they are."""
        env = self.env = with_golden("store-a")
        before = self.files(env)
        store = self.opened(env, golden())
        self.settle(env)
        self.stopped(store)
        self.assertEqual(self.files(env), before)

    def test_every_key(self) -> None:
        """Every key and unique key of the manifest is found, and with it the message; so after a crash, and anew."""
        for name in golden_store.NAMES:
            for anew in (False, True):
                env = self.env = self.made_anew(name) if anew else with_golden(name)
                store = self.opened(env, golden())
                self.settle(env)
                for one in golden_store.read(name).manifest["messages"]:
                    for key in [one["uniqKey"], *(one["keys"] or "").split()]:
                        if key and one["sysFlag"] & ROLLBACK != ROLLBACK:
                            time = one["storeTimestamp"]
                            found = self.find(store, key, one["topic"], 1 << 20, (time - 1000, time))
                            self.assertIn(one["physicalOffset"], found, f"{key} of {one['topic']}")
                self.stopped(store)

    def test_gone_on_in(self) -> None:
        """The real broker's newest file is written on: old and new keys are found in it."""
        env = self.env = with_golden("store-a")
        env.clock.wall_offset_ms = 1795259999000
        names = sorted(self.files(env))
        store = self.opened(env, golden())
        offsets = self.put(store, range(40), "fresh", topic="Plain")
        self.settle()
        self.assertEqual(self.find(store, "fresh", "Plain"), offsets)
        self.assertEqual(len(self.find(store, "key5", "Plain")), 1)
        self.assertEqual(sorted(self.files(env)), names)
        self.stopped(store)


class FollowTests(IndexTestCase):
    """The index while the log grows."""

    def test_found(self) -> None:
        """A message is found by its unique key and by each word of KEYS, under its topic."""
        store = self.opened(self.env, indexed())
        (one,) = self.put(store, [1], "a", "b")
        (two,) = self.put(store, [2], "b", topic="U")
        self.assertEqual(self.find(store, "U000001"), [one])
        self.assertEqual(self.find(store, "a"), [one])
        self.assertEqual(self.find(store, "b"), [one])
        self.assertEqual(self.find(store, "b", "U"), [two])
        self.assertEqual(self.find(store, "c"), [])

    def test_off_the_turn(self) -> None:
        """An append writes nothing to the index; that happens a tenth of a second later, for all that came."""
        store = self.opened(self.env, indexed())
        self.put(store, range(50))
        self.assertEqual(self.files(self.env), {})
        self.assertEqual(store.index_behind, store.log_bounds()[1])
        self.env.clock.advance(0.1)
        self.settle()
        self.assertEqual((store.index_behind, len(self.entries(self.env))), (0, 50))

    def test_idle(self) -> None:
        """Nothing runs while nothing is to be indexed, and without an index nothing is made."""
        store = self.opened(self.env, indexed())
        self.put(store, range(5))
        self.settle()
        self.env.clock.advance(60)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.stopped(store)
        store = self.opened(self.env, indexed(index=False))
        self.put(store, range(5, 9))
        self.settle()
        self.assertEqual((len(self.entries(self.env)), self.find(store, "U000001"), store.index_behind), (5, [], 0))

    def test_many_files(self) -> None:
        """Files are filled to the last entry and follow one another; names are in order though the clock is not."""
        store = self.opened(self.env, indexed())
        for number in range(8):
            self.env.clock.wall_offset_ms = EPOCH_MS - number * 86_400_000
            offsets = self.put(store, range(number * 20, number * 20 + 20), "w")
            self.settle()
            self.assertEqual(self.find(store, f"U{number * 20:06d}"), offsets[:1])
        headers = [IndexHeader.unpack(data) for _, data in sorted(self.files(self.env).items())]
        self.assertEqual([one.index_count for one in headers[:-1]], [32] * (len(headers) - 1))
        self.assertEqual(sum(one.index_count - 1 for one in headers), 320)
        self.assertIn(file_name(EPOCH_MS), [name[:14] + "000" for name in self.files(self.env)])
        self.assertEqual(len(self.find(store, "w", count=1000)), 160)

    def test_limit(self) -> None:
        """Of many messages with a key the newest are found, oldest first."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(70), "w")
        self.assertEqual(self.find(store, "w", count=64), offsets[-64:])
        self.assertEqual(self.find(store, "w", count=1), offsets[-1:])

    def test_span(self) -> None:
        """Only messages of the span of store times asked for are found, to the second, in whichever file they are."""
        store = self.opened(self.env, indexed())
        offsets = []
        for number in range(90):
            offsets += self.send(store, keyed(number, "w"))
            self.env.clock.advance(1)
        for first, last in ((0, 89), (10, 12), (31, 33), (88, 200), (-50, 3), (40, 40)):
            span = (EPOCH_MS + first * 1000 - 1000, EPOCH_MS + last * 1000)
            self.assertEqual(self.find(store, "w", count=1000, span=span), offsets[max(0, first - 1) : last + 1])
        self.assertEqual(self.find(store, "w", span=(EPOCH_MS + 95_000, EPOCH_MS + 99_000)), [])

    def test_collisions(self) -> None:
        """Messages whose key has the same hash are handed out as well: telling them apart is the caller's part."""
        self.assertEqual(key_hash(key_text("T", "Aa")), key_hash(key_text("T", "BB")))
        store = self.opened(self.env, indexed())
        self.put(store, [1], "Aa")
        self.put(store, [2], "BB")
        self.settle()
        self.assertEqual(len(self.now(store.query("T", "Aa", 64, *FOREVER)).records), 2)
        self.assertEqual(len(self.find(store, "Aa")), 1)

    def test_how_far(self) -> None:
        """A search tells how far the index has come: store time and offset of the last message."""
        store = self.opened(self.env, indexed())
        self.assertEqual(self.now(store.query("T", "k", 64, *FOREVER))[1:], (0, 0))
        offsets = self.put(store, range(3))
        self.settle()
        self.assertEqual(self.now(store.query("T", "k", 64, *FOREVER))[1:], (EPOCH_MS + 2, offsets[-1]))

    def test_waits(self) -> None:
        """A search waits for what was sent before it, two seconds at most while the index cannot go on."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(3))
        waiting = store.query("T", "U000001", 64, *FOREVER)
        self.assertNoResult(waiting)
        self.env.clock.advance(0)
        self.assertEqual(len(self.now(waiting).records), 1)
        with held(self.env, "index"):
            self.put(store, range(3, 40))
            late = store.query("T", "U000039", 64, *FOREVER)
            self.env.clock.advance(0)
            self.env.clock.advance(1.9)
            self.assertNoResult(late)
            self.env.clock.advance(0.2)
            self.assertEqual(self.now(late).records, [])
        self.settle()
        self.assertEqual(len(self.find(store, "U000039")), 1)
        self.assertEqual(self.find(store, "U000000"), offsets[:1])

    def test_gone(self) -> None:
        """A message whose log file is gone is left out, and a damaged one."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(60), "w")
        self.settle()
        self.env.files.files[f"{ROOT}/commitlog/{4096:020d}"].data[offsets[-1] - 4096 + 88] ^= 1
        del store._commitlog.files.files[0]
        self.assertEqual(self.find(store, "w", count=1000), [one for one in offsets[:-1] if one >= 4096])

    def test_size(self) -> None:
        """A search hands out 12 MiB of records at most, and one at least."""
        store = self.opened(self.env, indexed(log_file_size=1 << 25, max_message_size=1 << 24))
        for number, size in enumerate((4, 5, 5, 14)):
            self.send(
                store, keyed(number, "w") if not size else message(body=bytes(size << 20), properties=b"KEYS\x01w")
            )
        self.settle()
        self.assertEqual(len(self.now(store.query("T", "w", 64, *FOREVER)).records), 2)
        self.assertEqual(len(self.now(store.query("T", "w", 1, *FOREVER)).records), 1)

    def test_no_room(self) -> None:
        """A full disk stops the index alone, and it goes on by itself once there is room."""
        store = self.opened(self.env, indexed())
        self.put(store, [1])
        self.settle()
        make = self.env.files.create_sparse

        def no_room(path: str, size: int) -> None:
            if "/index/" in path:
                raise OSError(28, "No space left on device")
            make(path, size)

        patch = self.patch(self.env.files, "create_sparse", no_room)
        self.put(store, range(2, 40))
        self.settle()
        self.assertGreater(store.index_behind, 0)
        patch.restore()
        self.env.clock.advance(6)
        self.settle()
        self.assertEqual(store.index_behind, 0)
        self.assertEqual(len(self.find(store, "U000039")), 1)

    def test_no_more_room(self) -> None:
        """The same where an existing file gets no further blocks: what was found waits, and nothing is put twice."""
        self.patch(indexspace, "STEP", 64)
        store = self.opened(self.env, indexed())
        offsets = self.put(store, [1])
        self.settle()
        full = self.patch(FakeMapping, "reserve", _no_space)
        offsets += self.put(store, range(2, 60), "w")
        self.settle()
        self.assertGreater(store.index_behind, 0)
        full.restore()
        self.env.clock.advance(6)
        self.settle()
        self.assertEqual(
            [offset for _, offset in self.entries(self.env)], offsets[:1] + [x for x in offsets[1:] for _ in "wu"]
        )

    def test_bug(self) -> None:
        """A bug in the index ends the index, not the store; the next start makes it anew."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(20), "w")
        self.settle()
        patch = self.patch(index, "keys_of_run", lambda *_: 1 / 0)
        offsets += self.put(store, range(20, 40), "w")
        self.settle()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        offsets += self.put(store, range(40, 60), "w")
        self.assertEqual(len(self.bodies(store)), 60)
        self.assertEqual(len(self.now(store.query("T", "w", 64, *FOREVER)).records), 20)
        self.stopped(store)
        patch.restore()
        store = self.opened(self.env, indexed())
        self.settle()
        self.assertEqual([offset for _, offset in self.entries(self.env)], [x for x in offsets for _ in "wu"])

    def test_sync_fails(self) -> None:
        """An index file that cannot be flushed harms nobody: the next start makes it anew."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(100), "w")
        sync = FakeMapping.sync

        def failing(mapping: FakeMapping) -> None:
            if "/index/" in mapping.path:
                raise OSError(5, "Input/output error")
            sync(mapping)

        patch = self.patch(FakeMapping, "sync", failing)
        self.settle()
        self.assertEqual(len(self.find(store, "w", count=1000)), 100)
        self.stopped(store)
        patch.restore()
        self.env = power_off(self.env)
        store = self.opened(self.env, indexed())
        self.settle()
        self.assertEqual([offset for _, offset in self.entries(self.env)], [x for x in offsets for _ in "wu"])

    def test_log_removed(self) -> None:
        """Where the log lost old files before they were indexed, the index goes on with what there is."""
        store = self.opened(self.env, indexed(index=False))
        offsets = self.put(store, range(150), "w")
        self.stopped(store)
        with held(self.env, "index"):
            store = self.opened(self.env, indexed())
            self.settle()
            self.env.files.remove(f"{ROOT}/commitlog/{0:020d}")
            del store._commitlog.files.files[0]
        self.env.clock.advance(6)
        self.settle()
        found = [offset for _, offset in self.entries(self.env)]
        self.assertEqual(found, [x for x in offsets if x >= 4096 for _ in "wu"])

    def test_after_flush(self) -> None:
        """Where readers see flushed messages only, so does the index."""
        store = self.opened(self.env, indexed(dispatch_after_flush=True))
        with held(self.env, "flush"):
            self.put(store, range(3))
            self.settle()
            self.env.clock.advance(1)
            self.assertEqual(self.entries(self.env), [])
        self.settle()
        self.assertEqual(len(self.entries(self.env)), 3)


class RestartTests(IndexTestCase):
    """The index after a restart."""

    def test_clean(self) -> None:
        """After a clean stop the index goes on where it was: each key once, also keys that a full file parted."""
        expected = []
        for start in range(0, 60, 5):
            store = self.opened(self.env, indexed())
            for offset in self.put(store, range(start, start + 5), "a", "b", "c"):
                expected += [offset] * 4
            self.stopped(store)
            self.assertEqual([offset for _, offset in self.entries(self.env)], expected)

    def test_stop_catches_up(self) -> None:
        """A stop indexes what it finds, and what it leaves is on the disk."""
        store = self.opened(self.env, indexed())
        self.put(store, range(50))
        self.assertEqual(self.entries(self.env), [])
        self.stopped(store)
        self.env = power_off(self.env)
        self.assertEqual(len(self.entries(self.env)), 50)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_unclean(self) -> None:
        """Killed or without power at any time: after the next start each key is there once, and every message found."""
        for lose in (killed, power_off):
            self.env = FakeEnvironment()
            store = self.opened(self.env, indexed())
            offsets: list[int] = []
            for step in range(30):
                offsets += self.put(store, range(step * 7, step * 7 + 7), "w", "x")
                if step % 3:
                    self.settle()
                if step % 4:
                    self.now(store.flush())
                if step % 5 == 0:
                    self.now(store.flush())
                    env = self.env
                    self.env = lose(env)
                    again = self.opened(self.env, indexed())
                    self.settle()
                    found = [offset for _, offset in self.entries(self.env)]
                    self.assertEqual(found, [one for one in offsets for _ in range(3)], f"step {step}")
                    self.assertEqual(self.find(again, "w", count=1000), offsets)
                    self.stopped(again)
                    self.env = env

    def test_twice_unclean(self) -> None:
        """A start that is killed after it dropped the newest file loses nothing either."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(100), "w")
        self.settle()
        self.now(store.flush())
        self.env = killed(self.env)
        with held(self.env, "index"):
            self.opened(self.env, indexed())
        self.env = killed(self.env)
        store = self.opened(self.env, indexed())
        self.settle()
        self.assertEqual([offset for _, offset in self.entries(self.env)], [one for one in offsets for _ in range(2)])

    def test_killed_recovery(self) -> None:
        """A recovery that was killed before its checkpoint, after a clean stop, loses nothing."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(100), "w")
        self.stopped(store)
        self.env.files.create(f"{ROOT}/abort", b"")
        self.opened(self.env, indexed())
        self.settle()
        self.assertEqual([offset for _, offset in self.entries(self.env)], [one for one in offsets for _ in range(2)])

    def test_missing(self) -> None:
        """Whichever files are taken away, damaged or of another size: all is found again, each key once."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(100), "w")
        self.stopped(store)
        names = sorted(self.files(self.env))
        self.assertEqual(len(names), 7)
        closed = self.env
        for at in range(8):
            for harm in ("remove", "shorten", "count", "offsets", "empty"):
                self.env = killed(closed)
                for name in names if at == 7 else [names[at]]:
                    path = f"{ROOT}/index/{name}"
                    data = self.env.files.files[path].data
                    if harm == "remove":
                        self.env.files.remove(path)
                    elif harm == "shorten":
                        del data[-1:]
                    elif harm == "count":
                        data[36:40] = b"\x7f\0\0\0"
                    elif harm == "offsets":
                        data[24:32] = b"\x7f" + bytes(7)
                    else:
                        data[:] = bytes(len(data))
                env = self.env
                store = self.opened(env, indexed())
                self.settle()
                what = f"{harm} of {at}"
                found = [offset for _, offset in self.entries(env)]
                self.assertEqual(found, [one for one in offsets for _ in range(2)], what)
                self.assertEqual(self.find(store, "w", count=1000), offsets, what)
                self.stopped(store)

    def test_other_geometry(self) -> None:
        """With other sizes set the index is made anew."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(50), "w")
        self.stopped(store)
        other = Geometry(50, 80)
        store = self.opened(self.env, indexed(index_geometry=other))
        self.settle()
        self.assertEqual(
            [offset for _, offset in self.entries(self.env, other)], [x for x in offsets for _ in range(2)]
        )

    def test_switched_off(self) -> None:
        """What was stored while the index was switched off is indexed once it is switched on again."""
        offsets = []
        for start, on in ((0, False), (20, True), (40, False), (60, False), (80, True)):
            store = self.opened(self.env, indexed(index=on))
            offsets += self.put(store, range(start, start + 20), "w")
            self.settle()
            self.stopped(store)
        self.assertEqual([offset for _, offset in self.entries(self.env)], [one for one in offsets for _ in range(2)])

    def test_without_keys(self) -> None:
        """Records without keys are not looked at again by the next start."""
        store = self.opened(self.env, indexed())
        self.put(store, [1])
        for _ in range(100):
            self.send(store, message(properties=b""))
        self.stopped(store)
        with held(self.env, "index"):
            self.assertEqual(self.opened(self.env, indexed()).index_behind, 0)

    def test_killed_without_keys(self) -> None:
        """After a kill, records without keys are not looked at again, also where keys come after them."""
        for numbers in ([], [1]):
            self.env = FakeEnvironment()
            store = self.opened(self.env, indexed())
            for _ in range(100):
                self.send(store, message(properties=b""))
            offsets = self.put(store, numbers, "w")
            self.settle()
            self.now(store.flush())
            self.env.clock.advance(60)
            self.env = killed(self.env)
            with held(self.env, "index"):
                again = self.opened(self.env, indexed())
                self.assertLess(again.index_behind, 300)
            self.settle()
            self.assertEqual(self.find(again, "w"), offsets)

    def test_foreign(self) -> None:
        """A name in the directory that is no index file's is refused, and nothing is changed."""
        store = self.opened(self.env, indexed())
        self.put(store, range(5))
        self.stopped(store)
        self.env.files.create(f"{ROOT}/index/notes.txt", b"x")
        before = content(self.env, "")
        self.failureResultOf(open_store(self.env, ROOT, indexed()), ForeignFile)
        self.same(content(self.env, ""), before)

    def test_old_files(self) -> None:
        """Files all of whose messages left the log are removed, but for the newest, and are not missed."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(150), "w")
        self.stopped(store)
        count = len(self.files(self.env))
        for base in (0, 4096):
            self.env.files.remove(f"{ROOT}/commitlog/{base:020d}")
        left = [one for one in offsets if one >= 8192]
        for _ in range(2):
            store = self.opened(self.env, indexed())
            self.settle()
            self.assertEqual(self.find(store, "w", count=1000), left)
            self.assertLess(len(self.files(self.env)), count)
            self.stopped(store)

    def test_cold(self) -> None:
        """An index that is made anew is made of what a thread reads, long records and blanks included."""
        store = self.opened(self.env, indexed(log_file_size=1 << 23, max_message_size=1 << 23))
        offsets = []
        for number in range(12):
            body = bytes(5 << 20) if number % 5 == 2 else bytes(100_000 * number)
            offsets += self.send(store, message(body=body, properties=b"KEYS\x01w"))
        self.stopped(store)
        for path in content(self.env, "index"):
            self.env.files.remove(path)
        store = self.opened(self.env, indexed(log_file_size=1 << 23, max_message_size=1 << 23))
        self.settle()
        self.assertEqual([offset for _, offset in self.entries(self.env)], offsets)

    def test_damage(self) -> None:
        """Damage in the log costs the keys of the record that it is in."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(50), "w")
        self.stopped(store)
        for path in content(self.env, "index"):
            self.env.files.remove(path)
        self.env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[offsets[7] + 4] ^= 1
        store = self.opened(self.env, indexed())
        self.settle()
        wanted = [one for one in offsets if one != offsets[7] for _ in range(2)]
        self.assertEqual([offset for _, offset in self.entries(self.env)], wanted)


class CrashPointTests(IndexTestCase):
    """The process is killed, or the power fails, before any change of a file."""

    CHANGES = ("create", "replace", "rename", "remove", "allocate", "create_sparse", "sync_directory", "zero")

    def watched(self, env: FakeEnvironment) -> list[FakeEnvironment]:
        """Return what will hold the machine as it was before each change, after a kill and without power."""
        seen: list[FakeEnvironment] = []

        def noting(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
            for after in (killed(env), power_off(env)):
                if not any(all(one.data == two.data for one, two in pairs(after, last)) for last in seen[-2:]):
                    seen.append(after)
            return original(*args, **named)

        def pairs(one: FakeEnvironment, two: FakeEnvironment) -> Iterable[tuple[FakeFile, FakeFile]]:
            other = two.files.files
            for path in one.files.files.keys() | other.keys():
                yield one.files.files.get(path) or FakeFile(b"?", 0), other.get(path) or FakeFile(b"??", 0)

        for name in self.CHANGES:
            self.patch(env.files, name, partial(noting, getattr(env.files, name)))
        for name in ("sync", "reserve"):
            self.patch(FakeMapping, name, partialmethod(noting_method, noting, getattr(FakeMapping, name)))
        return seen

    def test_life(self) -> None:
        """Whenever that is in the life of a store, the next start has each key of each message in the log once."""
        seen = self.watched(self.env)
        for start in (0, 40):
            store = self.opened(self.env, indexed())
            for number in range(start, start + 40, 4):
                self.put(store, range(number, number + 4), "w")
                self.settle()
                self.env.clock.advance(1)
            self.stopped(store)
        for name in self.CHANGES:
            self.patch(self.env.files, name, getattr(type(self.env.files), name).__get__(self.env.files))
        self.patch(FakeMapping, "sync", _sync)
        self.patch(FakeMapping, "reserve", _reserve)
        self.assertGreater(len(seen), 100)
        for number, env in enumerate(seen):
            store = self.opened(env, indexed())
            self.settle(env)
            offsets = [one.physical_offset for one in self.read_all(store)]
            found = [offset for _, offset in self.entries(env)]
            self.assertEqual(found, [one for one in offsets for _ in "wu"], f"at change {number}")
            self.stopped(store)

    def test_flipped(self) -> None:
        """One bit differs anywhere in an index file: the store starts, and finds what it finds without an error."""
        store = self.opened(self.env, indexed())
        offsets = self.put(store, range(50), "w")
        self.stopped(store)
        closed = self.env
        names = sorted(self.files(closed))
        random = Random(9)
        for _ in range(150):
            self.env = killed(closed)
            name = random.choice(names)
            at = random.randrange(HEADER_SIZE) if random.random() < 0.5 else random.randrange(GEOMETRY.size)
            self.env.files.files[f"{ROOT}/index/{name}"].data[at] ^= 1 << random.randrange(8)
            store = self.opened(self.env, indexed())
            self.settle()
            self.assertLessEqual(set(self.find(store, "w", count=1000)), set(offsets))
            self.assertEqual(store.index_behind, 0)
            more = self.put(store, range(50, 60), "x")
            self.assertEqual(self.find(store, "x", span=(EPOCH_MS, 1 << 62)), more)
            self.stopped(store)


def noting_method(mapping: FakeMapping, note: Callable[..., Any], original: Callable[..., Any], *args: Any) -> Any:
    """Note a change that is made through a mapping."""
    return note(original, mapping, *args)


class HeaderTests(IndexTestCase):
    """The part of the header that RocketMQ relies on."""

    def test_switch(self) -> None:
        """The first entry of a further file counts its seconds from the end of the one before."""
        store = self.opened(self.env, indexed())
        self.put(store, range(31))
        self.env.clock.advance(7)
        self.put(store, range(31, 33))
        self.settle()
        second = sorted(self.files(self.env).items())[1][1]
        at = GEOMETRY.entry_at(1) + 12
        self.assertEqual(int.from_bytes(second[at : at + 4], "big"), 7)
        self.assertEqual(IndexHeader.unpack(second[:HEADER_SIZE]).begin_ms, EPOCH_MS + 7031)
        at = GEOMETRY.entry_at(2) + 12
        self.assertEqual(int.from_bytes(second[at : at + 4], "big"), 0)

    def test_checkpoint(self) -> None:
        """RocketMQ's checkpoint says up to which store time full index files are on the disk."""
        store = self.opened(self.env, indexed())
        self.put(store, range(70))
        self.settle()
        self.env.clock.advance(5)
        raw = bytes(self.env.files.files[f"{ROOT}/checkpoint"].data[16:24])
        headers = [IndexHeader.unpack(data) for _, data in sorted(self.files(self.env).items())]
        self.assertEqual(int.from_bytes(raw, "big"), headers[1].end_ms)
        self.stopped(store)
