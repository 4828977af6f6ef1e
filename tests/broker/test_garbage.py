"""Ten thousand garbage frames: no exception leaks, and everybody else's traffic goes on."""

from __future__ import annotations

import random
import struct
from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import encode
from tests.broker.fakecluster import Cluster, pull_command, send_command

CODES: tuple[int, ...] = (
    10,
    11,
    12,
    14,
    15,
    17,
    21,
    25,
    26,
    28,
    29,
    30,
    31,
    32,
    33,
    34,
    35,
    36,
    37,
    38,
    41,
    42,
    46,
    200,
    201,
    202,
    203,
)
CODES += (204, 207, 208, 215, 300, 305, 310, 315, 320, 324, 325, 351, 352, 361, 99999, -1)
VALUES = ("", "0", "-1", "x", "9" * 30, "1e5", " 1", "T", "%RETRY%CG", "../..", "\u0661", "a\x01b\x02", "NaN", "true")
NAMES = (
    "topic",
    "queueId",
    "consumerGroup",
    "group",
    "offset",
    "queueOffset",
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
)
BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"clientID":1}',
    b'{"consumerDataSet":[{}]}',
    b"\xff" * 30,
    b"{" * 400,
    b"[" * 9000,
)


class Client(Protocol):
    """Counts what comes back."""

    received = 0
    lost = False

    def dataReceived(self, data: bytes) -> None:
        """Count."""
        self.received += len(data)

    def connectionLost(self, reason: Any = None) -> None:
        """Note."""
        self.lost = True


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    """A frame whose lengths are right, whatever is in it."""
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def garbage(chance: random.Random) -> bytes:
    """One piece of garbage."""
    kind = chance.randrange(9)
    if kind == 0:  # noise
        return chance.randbytes(chance.randrange(1, 200))
    if kind == 1:  # announced too long, or too short
        return struct.pack(">i", chance.choice((1 << 30, -1, 0, 3, 16_777_217)))
    if kind == 2:  # a header longer than its frame
        return struct.pack(">II", 20, chance.randrange(17, 1 << 24)) + bytes(16)
    if kind == 3:  # no JSON
        return framed(
            chance.choice((b"{", b'{"code":}', b"\xff\xfe", b"[1,2]", b'"x"', b"", b"nul")) + chance.randbytes(3)
        )
    if kind == 4:  # deep JSON
        deep = chance.randrange(20, 20000)
        return framed(b'{"code":34,"opaque":1,"extFields":' + b'{"a":' * deep + b"1" + b"}" * deep + b"}")
    if kind == 5:  # many fields
        fields = ",".join(f'"f{number}":"x"' for number in range(chance.randrange(129, 2000)))
        return framed(f'{{"code":11,"opaque":2,"extFields":{{{fields}}}}}'.encode())
    if kind == 6:  # binary noise
        return framed(chance.randbytes(chance.randrange(0, 60)), kind=1)
    if kind == 7:  # a good frame, cut or bent
        good = bytearray(encode(chance.choice((send_command("T"), pull_command("T")))))
        for _ in range(chance.randrange(1, 6)):
            good[chance.randrange(4, len(good))] = chance.randrange(256)
        return bytes(good[: chance.choice((len(good), chance.randrange(1, len(good))))])
    members = ",".join(f'"{name}":"{value}"' for name in chance.sample(NAMES, 5) for value in [chance.choice(VALUES)])
    members = members.replace("\x01", "\\u0001").replace("\x02", "\\u0002")
    header = f'{{"code":{chance.choice(CODES)},"opaque":3,"flag":0,"extFields":{{{members}}}}}'
    return framed(header.encode(), chance.choice(BODIES))


class GarbageTests(SynchronousTestCase):
    def test_ten_thousand(self) -> None:
        """Every piece is answered or ends its own connection; a well-behaved client notices nothing."""
        chance = random.Random(20240521)
        cluster = Cluster()
        cluster.send("T", b"good")
        factory = Factory.forProtocol(Client)
        answered = ended = 0
        client = self.connect(cluster, factory)
        for number in range(10_000):
            if client.lost:
                ended += 1
                client = self.connect(cluster, factory)
            before = client.received
            client.transport.write(garbage(chance))
            cluster.pump()
            answered += client.received > before
            if number % 500 == 0:
                self.assertEqual(cluster.send("T", b"good").code, 0)
                self.assertEqual(cluster.pull("T")[0].code, 0)
        self.assertGreater(answered, 1000)
        self.assertGreater(ended, 1000)
        self.assertEqual(self.flushLoggedErrors(), [])
        server = cluster.broker.server
        assert server is not None
        self.assertLess(len(server.connections), 20)
        self.assertTrue(all(not topic.startswith(".") for topic in cluster.broker.topics.names()))
        client.transport.loseConnection()
        cluster.stop()

    def connect(self, cluster: Cluster, factory: Any) -> Any:
        """A new connection to the broker."""
        return self.successResultOf(cluster.env.network.connect("127.0.0.1", 10911, factory, 3.0))
