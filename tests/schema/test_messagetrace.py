"""The records of message traces."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadTrace
from smartgo.schema import messagetrace
from smartgo.schema.messagetrace import (
    ConsumeBegun,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    Recalled,
    TransactionEnded,
    decode,
    decode_readable,
    encode,
    ids_of,
    search_keys,
)

__doctests__ = [messagetrace]

JAVA = (
    (
        "Pub\x011700000000\x01North\x01pg\x01T\x01ID1\x01new\x01k1 k2\x01h:10911\x0111\x013\x010\x01OFF\x01true\x02",
        Published(
            time_ms=1_700_000_000, region="North", group="pg", topic="T", message_ids=("ID1",),
            tags="new", keys="k1 k2", store_host="h:10911", body_length=11, cost_ms=3,
            kind=MessageKind.NORMAL, offset_id="OFF", success=True,
        ),
    ),
    (
        "Pub\x011\x01R\x01pg\x01Orders\x01A,B\x01null\x01null\x01h:1\x0140\x013\x010\x01O1,O2\x01false\x02",
        Published(
            time_ms=1, region="R", group="pg", topic="Orders", message_ids=("A", "B"), tags="", keys="",
            store_host="h:1", body_length=40, cost_ms=3, kind=MessageKind.NORMAL, offset_id="O1,O2", success=False,
        ),
    ),
    (
        "SubBefore\x012\x01R\x01cg\x01REQ\x01ID1\x011\x01k1\x02",
        ConsumeBegun(time_ms=2, region="R", group="cg", request_id="REQ", message_id="ID1", retries=1, keys="k1"),
    ),
    (
        "SubAfter\x01REQ\x01ID1\x015\x01false\x01null\x014\x013\x01cg\x02",
        ConsumeEnded(
            request_id="REQ", message_id="ID1", cost_ms=5, success=False, keys="", code=ConsumeCode.FAILED, time_ms=3,
            group="cg",
        ),
    ),
    (
        "SubAfter\x01REQ\x01ID1\x015\x01true\x01null\x010\x02",
        ConsumeEnded(request_id="REQ", message_id="ID1", cost_ms=5, success=True, keys=""),
    ),
    (
        "EndTransaction\x014\x01R\x01pg\x01Orders\x01ID1\x01new\x01k1\x01h:1\x012\x01TX\x01COMMIT_MESSAGE\x01true\x02",
        TransactionEnded(
            time_ms=4, region="R", group="pg", topic="Orders", message_id="ID1", tags="new", keys="k1",
            store_host="h:1", kind=MessageKind.COMMIT, transaction_id="TX", state="COMMIT_MESSAGE", from_check=True,
        ),
    ),
    (
        "Recall\x015\x01R\x01pg\x01Orders\x01ID1\x01true\x02",
        Recalled(time_ms=5, region="R", group="pg", topic="Orders", message_id="ID1", success=True),
    ),
)  # fmt: skip
"""Records as the Java encoders write them, the second SubAfter as for cloud access."""


class RecordTests(SynchronousTestCase):
    """Records."""

    def test_java(self) -> None:
        """Each record is encoded as C{TraceDataEncoder} does, and decoded from that."""
        for text, record in JAVA:
            self.assertEqual(encode(record), text)
            self.assertEqual(decode(text), [record])
        self.assertEqual(decode("".join(text for text, _ in JAVA)), [record for _, record in JAVA])

    def test_older_and_newer(self) -> None:
        """A Pub may lack the offset id, or name the client's host; a SubBefore may have lost its empty last field."""
        long = JAVA[0][0].rstrip("\x02")
        fields = long.split("\x01")
        (short,) = decode("\x01".join([*fields[:12], "true"]))
        (host,) = decode(f"{long}\x0110.0.0.9\x02")
        assert isinstance(short, Published) and isinstance(host, Published)
        self.assertEqual((short.offset_id, short.success), ("", True))
        self.assertEqual((host.client_host, host.offset_id), ("10.0.0.9", "OFF"))
        self.assertEqual(encode(host), f"{long}\x0110.0.0.9\x02")
        (begun,) = decode("SubBefore\x012\x01R\x01cg\x01REQ\x01ID1\x011")
        assert isinstance(begun, ConsumeBegun)
        self.assertEqual((begun.retries, begun.keys), (1, ""))

    def test_unknown_type(self) -> None:
        """A record of a type that is not known is left out, as in Java; so is the text of something else."""
        self.assertEqual(decode("Later\x011\x02" + JAVA[2][0]), [JAVA[2][1]])
        self.assertEqual(decode(""), [])
        self.assertEqual(decode("no trace at all"), [])

    def test_broken(self) -> None:
        """A record that cannot be read is refused by the name and number of its wrong field."""
        pub = JAVA[0][0]
        for text, words in (
            ("Pub\x011\x02", "Pub has 2 fields, and should have 13 at least"),
            (pub.replace("1700000000", "soon"), "field 1 of a trace record Pub is 'soon'"),
            (pub.replace("1700000000", "9" * 5000), "field 1 of a trace record Pub is '9999999999"),
            (pub.replace("1700000000", "9" * 19), "a number up to 9223372036854775807"),
            (pub.replace("\x013\x010\x01", "\x013\x019\x01"), "field 11 of a trace record Pub is '9'"),
            (pub.replace("true", "yes"), "field 13 of a trace record Pub is 'yes', and should be true or false"),
            (JAVA[3][0].replace("\x014\x013", "\x0177\x013"), "field 6 of a trace record SubAfter is 77"),
            (JAVA[3][0].replace("\x015\x01", "\x01\u0665\x01"), "field 3 of a trace record SubAfter"),
        ):
            error = self.assertRaises(BadTrace, decode, text)
            self.assertIn(words, str(error))
            self.assertLess(len(str(error)), 200)

    def test_readable(self) -> None:
        """The others of a body with broken records can be read."""
        self.assertEqual(decode_readable(f"Pub\x011\x02{JAVA[2][0]}SubAfter\x02"), ([JAVA[2][1]], 2))

    @settings(max_examples=200, deadline=None)
    @given(st.text(alphabet=st.sampled_from("\x01\x02019-PubSeforAtnullc\u0665"), max_size=200))
    def test_any_text(self, text: str) -> None:
        """Whatever the text, decoding returns records that can be encoded again, or raises BadTrace."""
        records, _ = decode_readable(text)
        for record in records:
            encode(record)

    def test_keys(self) -> None:
        """A trace message is found by the ids and keys of its messages, each id of a batch for itself."""
        self.assertEqual(search_keys(JAVA[0][1]), ["ID1", "k1", "k2"])
        self.assertEqual(search_keys(JAVA[1][1]), ["A", "B"])
        self.assertEqual(search_keys(JAVA[6][1]), ["ID1"])
        self.assertEqual(ids_of(JAVA[5][1]), ("ID1",))
