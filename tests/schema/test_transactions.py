"""Tests of L{smartgo.schema.transactions}, most of them against the store of a RocketMQ 4.9.7 broker."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import properties as names
from smartgo.schema.headers.transaction import CheckTransactionRequest
from smartgo.schema.message import NewMessage, StoredMessage, pack_host
from smartgo.schema.properties import decode as decode_properties
from smartgo.schema.properties import encode as encode_properties
from smartgo.schema.record import decode, encode
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC
from smartgo.schema.transactions import (
    check_request,
    committed_copy,
    finished_offsets,
    given_up_copy,
    half_copy,
    half_properties,
    op_message,
    read_half,
)
from tests import golden_store

HOST = pack_host("10.0.0.1", 5555)

# The body of a 39 that RocketMQ 4.9.7 sent, and what lay in its store before.
CHECKED = bytes.fromhex(
    "0000011ddaa320a72d26a7c7000000000000000000000000000000030000000000000f1a00000000000001a1fde446297f0000010000ae02"
    "000001a1fde446337f0000010000653700000000000000000000000000000007756e6b6e6f776e065761546f757200b55245414c5f544f50"
    "4943015761546f7572025452414e53414354494f4e5f434845434b5f54494d45530131024b45595301747833025452414e5f4d5347017472"
    "756502554e49515f4b455901433030303032303235454339354646443242323736393743354532393030304402434c555354455201446566"
    "61756c74436c7573746572025047524f5550015761547850726f647563657202574149540166616c73650254414753015478025245414c5f"
    "5149440130"
)


def stored_half(properties: dict[str, str], **more: object) -> StoredMessage:
    """A record of the half queue."""
    message = NewMessage(HALF_TOPIC, 0, b"body", encode_properties(properties), 7, 0, 1000, HOST, HOST, 3)
    return decode(encode(msgspec.structs.replace(message, **more), 5, 900, 2000))


class GoldenTests(SynchronousTestCase):
    """What a RocketMQ 4.9.7 broker stored of transactions, byte for byte."""

    def setUp(self) -> None:
        """Read its log."""
        self.raw: dict[int, bytes] = {}
        self.records: dict[int, StoredMessage] = {}
        store = golden_store.read("store-a")
        logs = store.logs()
        for entry in store.manifest["messages"]:
            at = entry["physicalOffset"]
            base, data = max(log for log in logs if log[0] <= at)
            self.raw[at] = data[at - base : at - base + entry["storeSize"]]
            self.records[at] = decode(self.raw[at])

    def of(self, topic: str) -> list[StoredMessage]:
        """The records of a topic, oldest first."""
        return [self.records[at] for at in sorted(self.records) if self.records[at].topic == topic]

    def check(self, made: NewMessage, found: StoredMessage) -> None:
        """A message, stored where a record was found, is that record."""
        again = encode(made, found.queue_offset, found.physical_offset, found.stored_ms)
        self.assertEqual(again, self.raw[found.physical_offset])

    def test_op_messages(self) -> None:
        """Op messages are RocketMQ's, and name the half messages that were decided."""
        offsets = []
        for found in self.of(OP_HALF_TOPIC):
            (offset,) = finished_offsets(found)
            offsets.append(offset)
            self.check(op_message(offset, found.born_ms, found.store_host), found)
        self.assertEqual(offsets, [0, 1, 4, 5, 8, 10])

    def test_committed(self) -> None:
        """Committed messages are RocketMQ's."""
        committed = self.of("Tx")
        self.assertEqual(len(committed), 4)
        for found in committed:
            made = committed_copy(self.records[found.prepared_offset])
            assert made is not None
            self.check(made, found)

    def test_check_backs(self) -> None:
        """Each copy of a half message that RocketMQ appended is the one that we append."""
        latest: dict[object, StoredMessage] = {}
        copies = 0
        for found in self.of(HALF_TOPIC):
            half = read_half(found)
            older = latest.get(half.key)
            if older is not None:
                self.check(half_copy(older, read_half(older).checks + 1), found)
                copies += 1
            latest[half.key] = found
        self.assertEqual((len(latest), copies), (8, 32))
        for found in self.of(CHECK_MAX_TIME_TOPIC):
            self.check(given_up_copy(latest[read_half(found).key], None), found)

    def test_half_messages(self) -> None:
        """The properties of a half message are RocketMQ's, whatever their order was in the request."""
        for found in self.of(HALF_TOPIC)[:8]:
            properties = decode_properties(found.properties)
            topic, queue = properties.pop(names.REAL_TOPIC), properties.pop(names.REAL_QID)
            self.assertEqual(encode_properties(half_properties(topic, int(queue), properties)), found.properties)

    def test_check_request(self) -> None:
        """The request that asks a producer has RocketMQ's body and header."""
        found = decode(CHECKED)
        properties = {**decode_properties(found.properties), names.WAIT: "true"}
        copy = found.copy_to(HALF_TOPIC, 0, encode_properties(properties), 0, 0)
        request = check_request(copy, 3, 0xF1A, found.stored_ms)
        self.assertEqual(request.body, CHECKED)
        self.assertTrue(request.is_one_way)
        header = request.read(CheckTransactionRequest)
        unique = "C00002025EC95FFD2B27697C5E29000D"
        self.assertEqual(
            header, CheckTransactionRequest(3, 0xF1A, unique, unique, "7F000001000065370000000000000F1A", None)
        )


class ReadingTests(SynchronousTestCase):
    """Records that others wrote."""

    def test_half(self) -> None:
        """A half message is read with its key, checks and immunity."""
        half = read_half(
            stored_half(
                {
                    names.PGROUP: "PG",
                    names.REAL_TOPIC: "T",
                    names.UNIQ_KEY: "U",
                    names.TRANSACTION_CHECK_TIMES: "4",
                    names.CHECK_IMMUNITY_TIME: "30",
                    names.TRAN_PREPARED_QUEUE_OFFSET: "2",
                }
            )
        )
        self.assertEqual(half, (5, 900, ("PG", "T", "U"), "PG", "T", 4, 1000, 30_000, 2))

    def test_odd_numbers(self) -> None:
        """Numbers that are none count as RocketMQ counts them: -1 checks, no immunity, no first offset."""
        odd = {
            names.TRANSACTION_CHECK_TIMES: "x",
            names.CHECK_IMMUNITY_TIME: "-1",
            names.TRAN_PREPARED_QUEUE_OFFSET: "",
        }
        half = read_half(stored_half(odd))
        self.assertEqual((half.key, half.checks, half.immunity_ms, half.first_offset), (None, -1, None, None))

    def test_op_of_5(self) -> None:
        """An op message of RocketMQ 5 names several; other tags and odd bodies name nothing."""
        for tags, body, offsets in (
            ("d", b"3,5,12", [3, 5, 12]),
            ("d", b"", []),
            ("d", b"x,7,-1", [7]),
            ("e", b"3", []),
        ):
            found = stored_half({names.TAGS: tags}, topic=OP_HALF_TOPIC, body=body)
            self.assertEqual(finished_offsets(found), offsets, (tags, body))

    def test_nowhere(self) -> None:
        """What has no destination, or one that is closed to sends, is not committed."""
        for topic, queue in (("T", "x"), ("", "0"), (HALF_TOPIC, "0"), (SCHEDULE_TOPIC, "0"), ("a b", "0")):
            self.assertIsNone(committed_copy(stored_half({names.REAL_TOPIC: topic, names.REAL_QID: queue})))

    def test_flag_kept(self) -> None:
        """Copies keep the application's flag and the redeliveries, which RocketMQ loses."""
        found = stored_half({names.REAL_TOPIC: "T", names.REAL_QID: "2"})
        committed = committed_copy(found)
        assert committed is not None
        for copy in half_copy(found, 1), given_up_copy(found, None), committed:
            self.assertEqual((copy.flag, copy.reconsume_times), (7, 3))
