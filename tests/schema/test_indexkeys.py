"""Tests of L{smartgo.schema.indexkeys}."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import indexkeys
from smartgo.schema.index import key_hash, key_text, keys_of
from smartgo.schema.indexkeys import FEWEST, Keys, keys_in, record_starts
from smartgo.schema.message import COMMIT, PREPARED, ROLLBACK, NewMessage
from smartgo.schema.properties import java_hash
from smartgo.schema.record import MAGIC_V2, SMARTGO_MAGIC, decode, encode
from tests import golden_store

V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", bytes(range(16)) + b"\0\0\x2a\x9f"
BASE = 1 << 40


def listed(keys: Keys) -> list[tuple[int, int, int]]:
    """Return keys one by one, as numbers of Python's own."""
    return [(int(one), int(two), int(three)) for one, two, three in zip(*keys, strict=True)]


def expected(data: bytes, starts: Sequence[int], base: int) -> list[tuple[int, int, int]]:
    """Return the same, by the functions for single records."""
    found = []
    for at in starts:
        message = decode(data, at)
        for key in keys_of(message.properties, message.sys_flag):
            found.append((key_hash(key_text(message.topic, key)), base + at, message.stored_ms))
    return found


def stored(*properties: bytes, **changes: Any) -> bytes:
    """Return records with these properties, back to back."""
    out = b""
    for number, raw in enumerate(properties):
        values: dict[str, Any] = {"topic": "T", "queue_id": 0, "body": b"b" * (number % 7), "properties": raw}
        values |= {"born_ms": 1, "born_host": V4, "store_host": V4, **changes}
        out += encode(NewMessage(**values), number, BASE + len(out), 1_700_000_000_000 + number)
    return out


class KeysTests(SynchronousTestCase):
    """The keys in runs of records, with numpy and without."""

    def both(self, data: bytes, starts: Sequence[int] | None = None) -> list[tuple[int, int, int]]:
        """Return the keys of records, in long runs and in short ones, and see that all ways agree."""
        if starts is None:
            starts, end = record_starts(data, 0, 1 << 30)
            self.assertEqual(end, len(data))
        wanted = expected(data, starts, BASE)
        with_numpy = listed(keys_in(data, [*starts, *list(starts[-1:]) * FEWEST], BASE))
        self.assertEqual(with_numpy[: len(wanted)], wanted)
        self.assertEqual(listed(keys_in(data, starts, BASE)), wanted)
        one_by_one = [one for at in starts for one in listed(keys_in(memoryview(data), [at], BASE))]
        self.assertEqual(one_by_one, wanted)
        with self.hidden():
            self.assertEqual(listed(keys_in(data, starts, BASE)), wanted)
        return wanted

    def hidden(self) -> Any:
        """Hide numpy for a while."""
        case = self

        class Hidden:
            def __enter__(self) -> None:
                self.patch = case.patch(indexkeys, "numpy_or_none", lambda: None)

            def __exit__(self, *_: object) -> None:
                self.patch.restore()

        return Hidden()

    def test_golden(self) -> None:
        """Of the records of real stores the same keys are found as one by one: unique keys first, then KEYS."""
        for name in golden_store.NAMES:
            found = 0
            for _, data in golden_store.read(name).logs():
                starts, _ = record_starts(data, 0, 1 << 30)
                found += len(self.both(data, starts)) if starts else 0
            self.assertGreater(found, 1000)

    def test_odd_properties(self) -> None:
        """Empty, repeated and missing values, blanks, other names, separators in excess: as one by one."""
        words = [b"UNIQ_KEY\x01u", b"UNIQ_KEY\x01", b"UNIQ_KEY\x01v", b"UNIQ_KEY", b"KEYS\x01k", b"KEYS\x01", b"KEYS"]
        words += [
            b"KEYS\x01a b",
            b"KEYS\x01 a  b ",
            b"KEYS\x01  ",
            b"XKEYS\x01x",
            b"XUNIQ_KEY\x01x",
            b"KEYSX\x01x",
            b"",
        ]
        words += ["KEYS\x01ключ 键".encode(), b"UNIQ_KEY\x01\xff\xfe", b"KEYS\x01" + b"l" * 100, b"A\x01UNIQ_KEY\x01z"]
        random = Random(5)
        raws = [b"\x02".join(random.choices(words, k=random.randrange(6))) for _ in range(600)]
        self.assertGreater(len(self.both(stored(*raws))), 500)

    def test_alike(self) -> None:
        """Among records that are alike, those that are so in length alone have keys of their own, as one by one."""
        alike = [
            b"A\x01%02d\x02UNIQ_KEY\x01%08X\x02KEYS\x01ab %02d",
            b"A\x01%02d\x02KEYS\x01ab %02d\x02UNIQ_KEY\x01%08X",
            b"KEYS\x01%02d\x02UNIQ_KEY\x01%08X\x02UNIQ_KEY\x01%02d",
            b"KEYS\x01%02d\x02UNIQ_KEY\x01%08X\x02KEYS\x01  %02d",
            b"KEYS\x01%02d\x02UNIQ_KEY\x01\x02KEYS\x01 %08X%02d ",
            b"UNIQ_KEY\x01%08X%02d%02d",
            b"KEYS%02d UNIQ_KEY\x01%08X%02d",
        ]
        random = Random(17)
        changes = b"\x02\x01 \xc3KXu"
        for raw in alike:
            for changed in (0, 3, 60, 300):
                raws = []
                for number in range(100):
                    numbers = [number] * 3
                    one = bytearray(raw % tuple(numbers))
                    if random.random() * 100 < changed:
                        one[random.randrange(len(one))] = random.choice(changes)
                    raws.append(bytes(one))
                for topic in ("T", "Tü"):
                    self.both(stored(*raws, topic=topic, body=b"b"))
                    records = b"".join(stored(one, topic=random.choice(("T1", "T2", "ü")), body=b"b") for one in raws)
                    self.both(records)

    def test_one_differs(self) -> None:
        """Whichever byte of one record differs, it has its own keys, and the others theirs."""
        raws = [b"A\x01b\x02UNIQ_KEY\x01k%02d\x02B\x01 c" % number for number in range(20)]
        words = [b"KEYS\x01k%02d l\x02UNIQ_KEY\x01k%02d" % (number, number) for number in range(FEWEST)]
        for raw in (raws, words):
            for at in range(len(raw[0])):
                for change in b"\x02\x01 \xc3K":
                    one = bytearray(raw[11])
                    one[at] = change
                    data = stored(*raw[:11], bytes(one), *raw[12:], body=b"b")
                    starts, _ = record_starts(data, 0, 1 << 30)
                    found = listed(keys_in(data, starts, BASE))
                    wanted = expected(data, starts, BASE)
                    self.assertEqual(found, wanted)
                    with self.hidden():
                        self.assertEqual(listed(keys_in(data, starts, BASE)), wanted)

    def test_lengths(self) -> None:
        """Properties of many lengths, also such as are longer than the first record, have their keys."""
        for values in ((b"a" * 300,), (b"", b"a", b"aaa", b"aaaaaaa"), (b"\x02\x02", b"a\x02" * 20, b"KEYS\x01")):
            raws = [b"%s\x02UNIQ_KEY\x01%d" % (values[number % len(values)], number * 7) for number in range(200)]
            self.assertEqual(len({one[0] for one in self.both(stored(b"KEYS\x01k", *raws))}), 201)
            self.both(stored(b"", *[b"%s\x02KEYS\x01k" % one for one in raws], body=b"UNIQ_KEY\x01u\x02" * 5))

    def test_alike_kinds(self) -> None:
        """Among records that are alike, rollbacks have no keys, and records of another kind have theirs."""
        raw = b"UNIQ_KEY\x01u\x02KEYS\x01k l"
        for at in (0, 50, 99):
            for sys_flag, count in ((0, 300), (PREPARED, 300), (COMMIT, 300), (ROLLBACK, 297)):
                for host in (V4, V6):
                    odd = stored(raw, sys_flag=sys_flag, born_host=host, body=b"b")
                    data = stored(*[raw] * at, body=b"b") + odd + stored(*[raw] * (99 - at), body=b"b")
                    self.assertEqual(len(self.both(data)), count)

    def test_kinds(self) -> None:
        """Rollbacks have no keys; prepared and committed messages, IPv6 hosts and records of RocketMQ 5 have."""
        for sys_flag, count in ((0, 2), (PREPARED, 2), (COMMIT, 2), (ROLLBACK, 0)):
            for host in (V4, V6):
                data = stored(*[b"UNIQ_KEY\x01u\x02KEYS\x01k"] * 3, sys_flag=sys_flag, born_host=host)
                self.assertEqual(len(self.both(data)), 3 * count)
        record = bytearray(stored(b"UNIQ_KEY\x01u", topic="TT"))
        topic_at = record.index(b"\x02TT")
        record[topic_at:topic_at] = b"\0"
        record[:8] = len(record).to_bytes(4, "big") + MAGIC_V2.to_bytes(4, "big", signed=True)
        self.assertEqual(len(self.both(bytes(record) + stored(b"KEYS\x01k"))), 2)

    def test_damaged(self) -> None:
        """A record whose lengths do not add up has no keys, and does not keep its neighbours from theirs."""
        damages = [(84, b"\x7f\0\0\0"), (84, b"\xff\0\0\0"), (84, b"\0\0\0\x09"), (-14, b"\xfa"), (-12, b"\0\1")]
        for records in (stored(*[b"UNIQ_KEY\x01u"] * 80), stored(*[b"UNIQ_KEY\x01u"] * 80, body=b"b")):
            starts, _ = record_starts(records, 0, 1 << 30)
            for chosen in (*([one] for one in damages), damages):
                data = memoryview(bytearray(records))
                for number, (place, changed) in enumerate(chosen, 40):
                    at = starts[number] + place if place > 0 else starts[number + 1] + place
                    data[at : at + len(changed)] = changed
                wanted = [BASE + one for one in (*starts[:40], *starts[40 + len(chosen) :])]
                self.assertEqual([one[1] for one in listed(keys_in(data, starts, BASE))], wanted)
                with self.hidden():
                    self.assertEqual([one[1] for one in listed(keys_in(data, starts, BASE))], wanted)

    def test_no_absolute_value(self) -> None:
        """The one hash that has no absolute value becomes 0, negative ones positive."""
        self.assertEqual(java_hash("T#folvslpu"), -(2**31))
        data = stored(*[b"KEYS\x01folvslpu"] * 2, b"KEYS\x01zzzzzz")
        self.assertEqual([one[0] for one in self.both(data)][:2], [0, 0])

    def test_empty(self) -> None:
        """No records, and records without keys, have no keys."""
        self.assertFalse(keys_in(b"", [], 0))
        self.assertEqual(self.both(stored(*[b""] * 3)), [])

    def test_starts(self) -> None:
        """Records are told by size and magic, as many as asked for, up to the first that is none or not whole."""
        data = stored(b"", b"KEYS\x01k", b"")
        starts, end = record_starts(data, 0, 1 << 30)
        self.assertEqual((len(starts), end), (3, len(data)))
        self.assertEqual(record_starts(data, 0, 2), (starts[:2], starts[2]))
        self.assertEqual(record_starts(data, starts[1], 9), (starts[1:], end))
        self.assertEqual(record_starts(data[:-1], 0, 9), (starts[:2], starts[2]))
        self.assertEqual(record_starts(data[: starts[2]] + bytes(100), 0, 9), (starts[:2], starts[2]))
        self.assertEqual(record_starts(b"", 0, 9), ([], 0))

    def test_same_size(self) -> None:
        """Of records of one size the starts are a range; another size, or no record, ends it; so without numpy."""
        one, other = stored(b"KEYS\x01k", body=b"b"), stored(b"KEYS\x01kk", body=b"b")
        size = len(one)
        for hide in (False, True):
            with self.hidden() if hide else nullcontext():
                for count in (1, 15, 16, 100):
                    data = one * count
                    wanted = list(range(0, count * size, size))
                    starts, end = record_starts(data, 0, 1 << 30)
                    self.assertEqual((list(starts), end), (wanted, len(data)))
                    self.assertEqual(isinstance(starts, range), count >= 16)
                    self.assertEqual(list(record_starts(b"??" + data, 2, count - 1)[0]), [at + 2 for at in wanted[:-1]])
                    self.assertEqual(list(record_starts(data[:-1], 0, 1 << 30)[0]), wanted[:-1])
                    starts, end = record_starts(data + other + one + bytes(100), 0, 1 << 30)
                    self.assertEqual(list(starts), [*wanted, len(data), len(data + other)])
                    self.assertEqual(end, len(data + other + one))
                    again = one[:4] + SMARTGO_MAGIC.to_bytes(4, "big", signed=True) + one[8:]
                    self.assertEqual(
                        record_starts(data + again * 2, 0, count + 1), ([*wanted, len(data)], len(data) + size)
                    )
