"""
A tape of sends and pulls, the same for every seed: plain, odd, hostile and split frames, with changes of topics and
settings between them. It is played to a whole broker in memory, and the digests of all store files and of all answers
are printed as JSON. So that two ways of doing the same work can be compared::

    SMARTGO_PURE=0 python -m tests.broker.sendtape --seed 1 --count 20000
    SMARTGO_PURE=1 python -m tests.broker.sendtape --seed 1 --count 20000
    python -m tests.broker.sendtape --seed 1 --count 20000 --one-by-one

With C{--signed} the broker has access control: most frames are signed by who may send them, others are not, and the
rules change meanwhile.

With C{--sockets}, where answers wait for a flush or a slave, their order on a connection is not compared: others
overtake them.

With C{--pulls 0.5} half of the frames are pulls. They are never sent together with sends, and none waits for a queue
that is sent to: when exactly a message becomes visible within a read is nobody's promise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final
from unittest import mock

from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from smartgo import core
from smartgo.broker.processors.pull import PullProcessor
from smartgo.broker.processors.send import SendProcessor
from smartgo.broker.settings.changes import Who
from smartgo.net.link import Link
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.signature import AccessKey
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment, FakeNetwork
from tests.node.securedcluster import SecuredCluster, lay
from tests.sockets import SocketNetwork

TOPICS: Final = ("T", "T", "T", "T", "Topic_2", "A" * 127, "U1", "U2", "%RETRY%g", "TBW102", "SCHEDULE_TOPIC_XXXX",
                 "rmq_sys_wheel_timer", "no/pe", "中", "")  # fmt: skip
NAMES: Final = ("UNIQ_KEY", "UNIQ_KEY", "WAIT", "WAIT", "TAGS", "TAGS", "KEYS", "a", "b", "key", "CLUSTER", "DELAY",
                "TRAN_MSG", "__CRC32#", "x__CRC32#", "INNER_MULTI_DISPATCH", "中", "MSG_REGION", "TIMER_DELAY_SEC",
                "TIMER_DELIVER_MS", "__STARTDELIVERTIME")  # fmt: skip
LONG: Final = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "l": "maxReconsumeTimes", "m": "batch",
}  # fmt: skip
ODD_NUMBERS: Final = ("", "-", "-1", "x", "1.0", "1e3", " 1", "007", "-0", "99999999999", "9" * 18, "9" * 19, "9" * 25,
                      "null", "+1", "2147483647", "2147483648", "-2147483648", "-2147483649", "\u0661")  # fmt: skip
_RUNTIME_INFO: Final = RequestCode.GET_BROKER_RUNTIME_INFO.to_bytes(2, "big")  # its answer has the process's figures
CHANGES: Final = ("queues", "delete", "trace", "permission", "time")
PULL_CHANGES: Final = (*CHANGES, "consume", "subscription", "subscription", "long polls")
GROUPS: Final = ("CG", "CG", "CG", "CH", "TOOLS_CONSUMER", "no/pe", "中", "")
HELD: Final = "Held"
EXPRESSIONS: Final = ("*", "*", "*", "", "TagA", "TagB || TagA", "TagC", "||", " * ", "中", "x" * 5000, "a > 1")


SIGNERS: Final = (
    *[AccessKey("an-admin", "an-admin-secret")] * 3,
    *[AccessKey("a-sender", "a-sender-secret")] * 6,
    AccessKey("a-sender", "another-secret"),
    AccessKey("a-stranger", "a-sender-secret"),
)
RULES: Final = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- accessKey: a-sender
  secretKey: a-sender-secret
  topicPerms: [T=PUB|SUB, Topic_2=PUB|SUB, U1=SUB]
  groupPerms: [CG=SUB]
"""
OTHER_RULES: Final = (
    RULES,
    RULES,
    RULES.replace("T=PUB|SUB", "T=DENY"),
    RULES.replace("T=PUB|SUB", "T=SUB").replace("U1=SUB", "U1=PUB|SUB"),
    RULES.replace("a-sender-secret", "another-secret"),
)


class PullFrame(bytes):
    """A frame that is, or was meant to be, a pull."""


class Tape:
    """The frames of one seed, each with its length word."""

    def __init__(self, seed: int, signers: Sequence[AccessKey] = ()) -> None:
        """@param signers: sign the frames, each as often as it is there."""
        self._random = random.Random(seed)
        self._signing = random.Random(seed + 2)
        self._signers = signers
        self._opaque = 0

    def frames(self, count: int, plain: float, pulls: float = 0.0) -> list[bytes]:
        """Some frames; that part of them plain, and that part pulls."""
        return [self._next(plain, pulls) for _ in range(count)]

    def _next(self, plain: float, pulls: float) -> bytes:
        if pulls and self._random.random() < pulls:
            return PullFrame(self._plain_pull() if self._random.random() < plain else self._any_pull())
        return self._plain() if self._random.random() < plain else self._any()

    def _signed(self, fields: dict[str, str], body: bytes) -> dict[str, str]:
        """Ext fields, most of them with a signature, and most of these with the right one."""
        if not self._signers:
            return fields
        chance = self._signing
        command = Command.request(0, fields=fields, body=body)
        if chance.random() < 0.97:
            chance.choice(self._signers).sign(command)
        signed = dict(command.fields)
        kind = chance.random()
        if kind < 0.01:
            signed["Signature"] = chance.choice(["", "x", "中" * 28, signed.get("Signature", "")[:-1]])
        elif kind < 0.02:
            signed["_UNIQUE_KEY_QUERY"] = "true"
        elif kind < 0.03:
            signed["zzz"] = "later"
        elif kind < 0.04:
            signed.pop(chance.choice(["AccessKey", "Signature"]), None)
        elif kind < 0.2:
            return {name: signed[name] for name in chance.sample(list(signed), len(signed))}
        return signed

    def _frame(self, code: int, fields: dict[str, str], body: bytes, binary: bool) -> bytes:
        if code == 10:
            fields = {LONG.get(name, name): value for name, value in fields.items()}
        fields = self._signed(fields, body)
        if binary:
            header = self._binary(code, fields, 0, b"")
        else:
            members = {
                "code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": self._opaque,
                "serializeTypeCurrentRPC": "JSON", "version": 401,
            }  # fmt: skip
            header = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
        return struct.pack(">ii", 4 + len(header) + len(body), len(header) | binary << 24) + header + body

    def _binary(self, code: int, fields: dict[str, str], flag: int, remark: bytes) -> bytes:
        block = b""
        for name, value in fields.items():
            raw, text = name.encode(), value.encode("utf-8", "surrogatepass")
            block += struct.pack(">h", len(raw)) + raw + struct.pack(">i", len(text)) + text
        head = struct.pack(">hBhiii", code, 0, 401, self._opaque, flag, len(remark))
        return head + remark + struct.pack(">i", len(block)) + block

    def _fields(self, topic: str, properties: str) -> dict[str, str]:
        chance = self._random
        return {
            "a": "PG", "b": topic, "c": "TBW102", "d": "4", "e": str(chance.randrange(4)), "f": "0",
            "g": str(1_600_000_000_000 + self._opaque), "h": "0", "i": properties, "j": "0", "k": "false", "l": "16",
            "m": "false", "n": "broker-a",
        }  # fmt: skip

    def _body(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 1, 15, 16, 63, 64, 65, 100, 130, 1024]))

    def _plain(self) -> bytes:
        """A frame as the official clients send it."""
        chance = self._random
        self._opaque += 1
        code = chance.choice([310, 310, 310, 320, 10])
        key = f"UNIQ_KEY\x01{chance.getrandbits(128):032X}\x02WAIT\x01{chance.choice(['true', 'true', 'false'])}"
        topic = chance.choice(["T", "T", "Topic_2", "A" * 127])
        binary = chance.random() < 0.5
        if code == 320:
            items = (
                (0, self._body(), f"UNIQ_KEY\x01{chance.getrandbits(128):032X}\x02TAGS\x01TagA".encode())
                for _ in range(chance.choice([1, 2, 16]))
            )
            return self._frame(code, self._fields(topic, "WAIT\x01true"), b"".join(map(_item, items)), binary)
        properties = f"{key}\x02TAGS\x01{chance.choice(['TagA', 'TagB'])}" + chance.choice(
            ["", "\x02", "\x02KEYS\x01k1 k2"]
        )
        return self._frame(code, self._fields(topic, properties), self._body(), binary)

    def _value(self, name: str) -> str:
        chance = self._random
        if name == "WAIT":
            return chance.choice(["true", "false", "TRUE", "x"])
        if name == "TAGS":
            return chance.choice(["TagA", "", "t" * chance.randrange(200), "中", "a b"])
        if name.startswith(("DELAY", "TIMER", "__START")):
            return chance.choice(["0", "1", "3", "x"])
        words = " ".join([f"w{number}" for number in range(chance.choice([3, 63, 64, 65, 66]))])
        return chance.choice(["v", "", "0" * 32, "x" * chance.randrange(60), "é中", "a b c", "a\x01b", "\0", words])

    def _properties(self) -> str:
        chance = self._random
        kind = chance.random()
        if kind < 0.3:
            pairs = [(f"p{number}", "v") for number in chance.sample(range(60), chance.randrange(27))]
        else:
            pairs = [(name, self._value(name)) for name in chance.choices(NAMES, k=chance.randrange(8))]
        text = "\x02".join([f"{name}\x01{value}" for name, value in pairs])
        kind = chance.random()
        if kind < 0.1:
            text += "\x02"
        elif kind < 0.12:
            text = text.replace("\x01", "", 1)
        elif kind < 0.14:
            text += "\x02\x02"
        elif kind < 0.16:
            text = "\x02" + text
        elif kind < 0.165:
            text += "\x02big\x01" + "x" * chance.choice([32600, 32767, 33000])
        return text

    def _odd_item(self) -> bytes:
        chance = self._random
        kind = chance.random()
        own = self._properties().encode("utf-8", "surrogatepass")[:32767]
        raw = _item((chance.choice([0, 5, -1]), self._body(), own))
        if kind < 0.02:
            return raw[:-1]
        if kind < 0.04:
            return struct.pack(">i", chance.choice([-1, 0, 21, 1 << 30])) + raw[4:]
        if kind < 0.06:
            return raw[:16] + struct.pack(">i", chance.choice([-1, 0, 1 << 30])) + raw[20:]
        return raw

    def _any(self) -> bytes:
        """A frame that may have anything wrong with it."""
        chance = self._random
        self._opaque += 1
        code = (
            chance.choice([310] * 6 + [320] * 3 + [10] * 3) if chance.random() < 0.98 else chance.choice([11, 34, 999])
        )
        topic, body = chance.choice(TOPICS), self._body()
        if code == 320:
            body = b"".join([self._odd_item() for _ in range(chance.choice([0, 1, 2, 3, 10]))])
        fields = self._fields(topic, self._properties() if chance.random() < 0.5 else "UNIQ_KEY\x01abc\x02TAGS\x01x")
        for name in "defghjl":
            if chance.random() < 0.02:
                fields[name] = chance.choice(ODD_NUMBERS)
        fields["f"] = chance.choice([fields["f"]] * 8 + ["1", "8", "16", "48", "4", "12"])
        fields["e"] = chance.choice([fields["e"]] * 8 + ["-1", "4", "100", "65536"])
        fields["k"], fields["m"] = chance.choice(["false", "true", "x"]), chance.choice(["false", "true"])
        for name in [name for name in fields if chance.random() < 0.004]:
            del fields[name]
        if chance.random() < 0.15:
            fields.update(chance.choice([{"nsd": "x"}, {"zzz": "中"}, {"": "1"}, {"topic": "U1"}, {"é": "1"}]))
        if chance.random() < 0.1:
            fields = {name: fields[name] for name in chance.sample(list(fields), len(fields))}
        if code == 10:
            fields = {LONG.get(name, name): value for name, value in fields.items()}
        fields = self._signed(fields, body)
        flag = chance.choice([0] * 12 + [2, 1, 3, -1])
        header = self._odd_binary(code, fields, flag) if chance.random() < 0.5 else self._odd_json(code, fields, flag)
        if chance.random() < 0.02:
            at = chance.randrange(len(header))
            changed = header[:at] + bytes([chance.randrange(256)]) + header[at + 1 :]
            if not changed.startswith(_RUNTIME_INFO):
                header = changed
        binary = header[:1] != b"{" and header[:1].strip() != b""
        return struct.pack(">ii", 4 + len(header) + len(body), len(header) | binary << 24) + header + body

    def _pull_fields(self, offset: int, sys_flag: int) -> dict[str, str]:
        chance = self._random
        return {
            "consumerGroup": "CG", "topic": chance.choice(["T", "T", "Topic_2", "A" * 127]),
            "queueId": str(chance.randrange(4)), "queueOffset": str(offset), "maxMsgNums": "32",
            "sysFlag": str(sys_flag), "commitOffset": str(offset), "suspendTimeoutMillis": "15000",
            "subVersion": "5", "subscription": "*", "expressionType": "TAG",
        }  # fmt: skip

    def _plain_pull(self) -> bytes:
        """A pull as the official clients send it, of what is mostly there."""
        chance = self._random
        self._opaque += 1
        offset = chance.randrange(1 + self._opaque // 24)
        fields = self._pull_fields(offset, chance.choice([0, 1, 4, 5]))
        if chance.random() < 0.5:
            del fields["subscription"], fields["expressionType"]
        return self._frame(chance.choice([11, 11, 361]), fields, b"", chance.random() < 0.5)

    def _any_pull(self) -> bytes:
        """A pull that may have anything wrong with it."""
        chance = self._random
        self._opaque += 1
        offset = chance.randrange(-1, 2 + self._opaque // 8)
        held = chance.random() < 0.1
        fields = self._pull_fields(offset, chance.randrange(32) & ~2 | 2 * held)
        fields["topic"] = HELD if held else chance.choice([*TOPICS, fields["topic"]])
        fields["consumerGroup"] = chance.choice(GROUPS)
        fields["subscription"] = chance.choice(EXPRESSIONS)
        fields["expressionType"] = chance.choice(["TAG", "TAG", "", "SQL92", "tag"])
        fields["queueId"] = chance.choice([fields["queueId"]] * 8 + ["-1", "4", "100"])
        fields["maxMsgNums"] = chance.choice(["32", "1", "0", "-1", "33", "5", "1000"])
        fields["commitOffset"] = chance.choice([fields["commitOffset"], "0", "-1", "3"])
        fields["subVersion"] = chance.choice(["5", "0", "4", "6", "1600000000000"])
        if chance.random() < 0.3:
            fields["maxMsgBytes"] = chance.choice(["1", "0", "-1", "1000", "262144", "262145"])
        if chance.random() < 0.1:
            fields["requestSource"] = "1"
        for name in list(fields):
            if chance.random() < 0.01:
                fields[name] = chance.choice(ODD_NUMBERS)
        for name in [name for name in fields if chance.random() < 0.004]:
            del fields[name]
        if chance.random() < 0.15:
            fields.update(chance.choice([{"nsd": "x"}, {"bname": "中"}, {"": "1"}, {"lo": "U1"}, {"é": "1"}]))
        if chance.random() < 0.1:
            fields = {name: fields[name] for name in chance.sample(list(fields), len(fields))}
        code = chance.choice([11] * 20 + [361] * 20 + [12, 34])
        body = b"body" if chance.random() < 0.05 else b""
        fields = self._signed(fields, body)
        flag = chance.choice([0] * 20 + [2, 1, 3, -1])
        header = self._odd_binary(code, fields, flag) if chance.random() < 0.5 else self._odd_json(code, fields, flag)
        if chance.random() < 0.02:
            at = chance.randrange(len(header))
            header = header[:at] + bytes([chance.randrange(256)]) + header[at + 1 :]
        binary = header[:1] != b"{" and header[:1].strip() != b""
        return struct.pack(">ii", 4 + len(header) + len(body), len(header) | binary << 24) + header + body

    def _odd_binary(self, code: int, fields: dict[str, str], flag: int) -> bytes:
        chance = self._random
        raw = self._binary(code, fields, flag, b"" if chance.random() < 0.98 else b"remark")
        kind = chance.random()
        if kind < 0.01:
            return raw + b"more"
        if kind < 0.02:
            return raw[: chance.randrange(1, len(raw))]
        if kind < 0.03:  # a field that comes twice
            more = b"\0\1h\0\0\0\1" + b"7"
            return raw[:17] + struct.pack(">i", len(raw) - 21 + len(more)) + raw[21:] + more
        return raw

    def _odd_json(self, code: int, fields: dict[str, str], flag: int) -> bytes:
        chance = self._random
        members: dict[str, Any] = {
            "code": code, "extFields": fields, "flag": flag, "language": chance.choice(["JAVA", "CPP", "XX", "GO"]),
            "opaque": self._opaque, "serializeTypeCurrentRPC": "JSON", "version": chance.choice([401, 0, -1]),
        }  # fmt: skip
        kind = chance.random()
        if kind < 0.06:
            wrong = ({"remark": None}, {"remark": "hi"}, {"remark": 7}, {"zz": 1}, {"code": str(code)},
                     {"opaque": 2**31}, {"opaque": -5}, {"extFields": None}, {"flag": 0.0})  # fmt: skip
            members.update(chance.choice(wrong))
        order = list(members) if chance.random() < 0.9 else chance.sample(list(members), len(members))
        ascii_only = chance.random() < 0.3
        separators = (",", ":") if chance.random() < 0.8 else (" ,\t", ": \n")
        text = json.dumps({name: members[name] for name in order}, separators=separators, ensure_ascii=ascii_only)
        kind = chance.random()
        if kind < 0.02:
            text = text.replace('"0"', "0", 1)
        elif kind < 0.04:
            text = text.replace('"a"', '"\\u0061"', 1).replace("T", "\\u0054")
        elif kind < 0.05:
            text = text[: chance.randrange(1, len(text))]
        elif kind < 0.06:
            text = text.replace('"h":', '"h":"3","h":', 1)
        elif kind < 0.07:
            text += chance.choice([" ", "\n", "x", "{}"])
        elif kind < 0.08:
            text = text.replace("PG", chance.choice(["\\ud800", "\\ud83d\\ude00", "\\/\\b\\f", "\\x", "\x01"]), 1)
        return text.encode("utf-8", "surrogatepass")


def _item(item: tuple[int, bytes, bytes]) -> bytes:
    flag, body, own = item
    return (
        struct.pack(">iiiii", 22 + len(body) + len(own), 0, 0, flag, len(body))
        + body
        + struct.pack(">h", len(own))
        + own
    )


class _Client:
    """One connection in memory."""

    def __init__(self, network: FakeNetwork) -> None:
        self.heard = b""
        self.open = True
        network.connect("127.0.0.1", 10911, Factory.forProtocol(lambda: _Listener(self)), 3.0).addCallback(self._made)

    def _made(self, protocol: Any) -> None:
        self._transport = protocol.transport

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._transport.write(data)

    def hear(self) -> bytes:
        """What came since the last time."""
        heard, self.heard = self.heard, b""
        return heard


class _Listener(Protocol):
    def __init__(self, client: _Client) -> None:
        self._client = client

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._client.open = False

    def dataReceived(self, data: bytes) -> None:
        self._client.heard += data


class SocketClient:
    """One connection over a pair of sockets."""

    def __init__(self, network: SocketNetwork) -> None:
        self._network = network
        self._socket = network.join(10911)
        self.open = True

    def write(self, data: bytes) -> None:
        """Send bytes, as fast as they are taken."""
        while data:
            try:
                data = data[self._socket.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                if not self._network.pump():
                    return  # the broker reads no more
            except OSError:
                return

    def hear(self) -> bytes:
        """What came since the last time."""
        heard = b""
        while self.open:
            try:
                data = self._socket.recv(1 << 20)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.open = False
                self._socket.close()
            heard += data
        return heard


class Player:
    """A broker in memory, and three connections to it."""

    def __init__(
        self,
        seed: int,
        ip: str,
        settings: dict[str, str],
        changes: float,
        sockets: bool,
        pulls: bool = False,
        signed: bool = False,
    ) -> None:
        """
        @param changes: how often something is changed between two reads: the part of them.
        @param sockets: connect by pairs of sockets, which a hub can read.
        @param pulls: whether there are pulls on the tape.
        @param signed: the broker has access control.
        """
        self._random = random.Random(seed + 1)
        env = FakeEnvironment()
        if sockets:
            env.network = SocketNetwork()
        env.network.client_ip = ip
        settings = {"mappedFileSizeCommitLog": "4194304", "maxTopicsPerSecond": "1000000", **settings}
        self.cluster = SecuredCluster(env, RULES, **settings) if signed else Cluster(env, **settings)
        if isinstance(self.cluster, SecuredCluster):
            self.cluster.signs = True
        self._changes = changes
        self._settings = {"traceOn": "true", "brokerPermission": "6", "longPollingEnable": "true"}
        self._pulls = pulls
        self._version = 5
        self._digest = hashlib.sha256()
        self._digests: dict[object, Any] = {}  # by connection, where a socket may take a part of an answer
        self._late: dict[object, bytes] | None = None  # by connection, where order is nobody's promise
        if sockets and (settings.get("flushDiskType") == "SYNC_FLUSH" or settings.get("brokerRole") == "SYNC_MASTER"):
            self._late = {}
        self._answers = 0
        self._connections: list[_Client | SocketClient] = []
        self._connect()
        if pulls:
            self.cluster.heartbeat("CG", "T", "Topic_2", "A" * 127, version=5)
            self._update(HELD, 4)

    def _connect(self) -> None:
        network = self.cluster.env.network
        while len(self._connections) < 3:
            self._connections.append(SocketClient(network) if isinstance(network, SocketNetwork) else _Client(network))
            self.cluster.pump()

    def play(self, frames: Sequence[bytes]) -> None:
        """Send all frames, some at a time, cut anywhere, with changes between them."""
        at = 0
        while at < len(frames):
            count = self._random.choice([1, 1, 2, 5, 20, 60])
            part = frames[at : at + count]
            at += count
            for alike in ([one for one in part if type(one) is kind] for kind in (bytes, PullFrame)):
                if alike:
                    self._write(b"".join(alike))
            if self._random.random() < self._changes:
                kinds: tuple[str, ...] = PULL_CHANGES if self._pulls else CHANGES
                if isinstance(self.cluster, SecuredCluster):
                    kinds = (*kinds, "rules", "rules", "rules")
                self._change(self._random.choice(kinds))
            self._hear()

    def _write(self, data: bytes) -> None:
        """Send bytes over one of the connections, cut anywhere."""
        connection = self._random.choice(self._connections)
        cut = self._random.randrange(len(data) + 1)
        connection.write(data[:cut])
        if self._random.random() < 0.5:
            self.cluster.pump()
        connection.write(data[cut:])
        self.cluster.pump()

    def _hear(self) -> None:
        for connection in self._connections:
            heard = connection.hear()
            self._answers += len(heard)
            if self._late is not None:
                self._late[connection] = self._late.get(connection, b"") + heard
                continue
            digest = self._digests.setdefault(connection, hashlib.sha256()) if self._pulls else self._digest
            digest.update(heard)
        self._connections = [one for one in self._connections if one.open]
        self._connect()

    def _change(self, kind: str) -> None:
        topic = self._random.choice(["T", "Topic_2", "U1", "A" * 127])
        if kind == "time":
            self.cluster.pump(self._random.choice([0.01, 0.5, 3.0]))
        elif kind == "rules":
            assert isinstance(self.cluster, SecuredCluster)
            lay(self.cluster.env, self._random.choice(OTHER_RULES))
            self.cluster.access.reload()
        elif kind == "delete":
            self.cluster.ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, fields={"topic": topic}))
            self.cluster.pump(0.5)
        elif kind == "queues":
            self._update(topic, self._random.choice([1, 2, 4, 8]))
        elif kind == "consume":
            enabled = not self._random.randrange(3)
            self.cluster.broker.groups.set_consume_enabled(self._random.choice(["CG", "CH"]), enabled)
        elif kind == "subscription":
            self._version += self._random.choice([0, 1, 2])
            topics = self._random.choice([["T"], ["T", "Topic_2"], ["T", "Topic_2", "A" * 127]])
            tags = self._random.choice(["*", "*", "TagA", "TagA||TagB", "TagC"])
            self.cluster.heartbeat("CG", *topics, version=self._version, tags=tags)
        else:
            names = {"trace": "traceOn", "permission": "brokerPermission", "long polls": "longPollingEnable"}
            name = names[kind]
            values = {"brokerPermission": ["6", "6", "4", "2"]}.get(name, ["true", "false"])
            value = self._random.choice(values)
            if value != self._settings[name]:
                self._settings[name] = value
                self.cluster.broker.settings.change([(name, value)], Who("tape"))

    def _update(self, topic: str, queues: int) -> None:
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues),
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        }  # fmt: skip
        self.cluster.ask(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=fields))

    def finish(self) -> dict[str, object]:
        """Stop, and return all digests."""
        self.cluster.pump(3.0)
        stats = self.cluster.broker.stats
        found: dict[str, object] = {"stored": stats.put.total, "stored bytes": stats.put_size}
        if self._pulls:
            found["given out"] = [stats.got.total, stats.got_size]
            flows = [[one.topic, one.group, one.count, one.size] for one in stats.got_totals()]
            offsets = [[*key, queues] for *key, queues in self.cluster.broker.offsets.items()]
            found["flows"] = hashlib.sha256(json.dumps([flows, offsets]).encode()).hexdigest()
        self.cluster.stop()
        files = self.cluster.env.files.files
        for folder in ("commitlog", "consumequeue", "index"):
            digest = hashlib.sha256()
            paths = sorted(path for path in files if path.startswith(f"/store/{folder}"))
            for path in paths:
                digest.update(path.encode() + bytes(files[path].data))
            found[folder] = f"{len(paths)} {digest.hexdigest()}"
        for heard in (self._late or {}).values():
            for frame in sorted(split(heard)):
                self._digest.update(frame)
        for digest in self._digests.values():
            self._digest.update(digest.digest())
        found["answers"] = f"{self._answers} {self._digest.hexdigest()}"
        return found


def split(stream: bytes) -> Iterator[bytes]:
    """The frames of a stream, each with its length word; the last may lack its end."""
    at = 0
    while at < len(stream):
        begin = at
        at += 4 + int.from_bytes(stream[at : at + 4], "big")
        yield stream[begin:at]


def play(asked: argparse.Namespace) -> dict[str, object]:
    """Play a tape as the command line says; return digests, and how many frames were taken in runs."""
    take = SendProcessor.take
    taken = by_hub = 0

    def counted(self: SendProcessor, *arguments: Any) -> int:
        nonlocal taken
        found = 0 if asked.one_by_one else take(self, *arguments)
        taken += found
        return found

    ready_run, ready_pulls, took = SendProcessor.ready_run, PullProcessor.ready_run, Link.took

    def ready(self: SendProcessor) -> Any:
        return None if asked.one_by_one else ready_run(self)

    def pulls_ready(self: PullProcessor) -> Any:
        return None if asked.one_by_one else ready_pulls(self)

    def count(self: Link, frames: int) -> None:
        nonlocal taken, by_hub
        taken += frames
        by_hub += frames
        took(self, frames)

    with (
        mock.patch.object(SendProcessor, "take", counted),
        mock.patch.object(SendProcessor, "ready_run", ready),
        mock.patch.object(PullProcessor, "ready_run", pulls_ready),
        mock.patch.object(Link, "took", count),
    ):
        settings, changes = dict(_settings(asked.settings)), 0.0 if asked.quiet else 0.03
        player = Player(asked.seed, asked.ip, settings, changes, asked.sockets, asked.pulls > 0, asked.signed)
        tape = Tape(asked.seed, SIGNERS if asked.signed else ())
        player.play(tape.frames(asked.count, asked.plain, asked.pulls))
        found = player.finish()
    return {"core": core.CORE, "taken": taken, "by hub": by_hub, **found}


def _settings(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = word.partition("=")
        yield name, value


def main() -> None:
    """Play one tape as the command line says."""
    parser = argparse.ArgumentParser(description="Play a tape of sends to a broker in memory, and print digests.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--plain", type=float, default=0.5, help="the part of the frames that is plain")
    parser.add_argument("--pulls", type=float, default=0.0, help="the part of the frames that is pulls")
    parser.add_argument("--ip", default="127.0.0.1", help="where the clients are")
    parser.add_argument("--one-by-one", action="store_true", help="let no frame be taken in a run")
    parser.add_argument("settings", nargs="*", metavar="name=value")
    parser.add_argument("--sockets", action="store_true", help="connect by sockets, so that the hub reads them")
    parser.add_argument("--signed", action="store_true", help="with access control, and most frames signed")
    parser.add_argument("--quiet", action="store_true", help="change no topic and no setting meanwhile")
    json.dump(play(parser.parse_args()), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
