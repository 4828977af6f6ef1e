"""
The attacks, by name. Each does its worst, keeps it up while L{Stage.held} waits, and lets go.

What they were distilled from: clients that die in the middle of a frame, that never read, that ask for more than there
is, and such as mean harm. Sources: F20 to F26 of the reliability requirements.
"""

from __future__ import annotations

import json
import os
import random
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from tests.attack.attacker import Stage
from tests.attack.wire import (
    CLUSTER,
    CREATE_GROUP,
    CREATE_TOPIC_LIST,
    DELETE_GROUP,
    DELETE_TOPIC_AT_REGISTRY,
    HEARTBEAT,
    LOCK,
    MAX_OFFSET,
    ONE_WAY,
    PULL,
    PUT_KV,
    ROUTE,
    SEND_V2,
    UNREGISTER,
    Address,
    Answer,
    Wire,
    frame,
    pull_fields,
    registration,
    request,
    send_fields,
)

MIB: Final = 1 << 20
SEED: Final = 20261122

Attack = Callable[[Stage], None]


def opened(address: Address, count: int, timeout: float = 10.0, source: str = "") -> list[Wire]:
    """Open connections, from one IP address; those that are refused are left out."""
    found = []
    for _ in range(count):
        try:
            found.append(Wire(address, timeout, source=source))
        except OSError:
            continue
    return found


def closed(wires: Iterable[Wire]) -> None:
    """Close connections."""
    for wire in wires:
        wire.close()


def give(wire: Wire, data: bytes) -> int:
    """Send as much as the peer takes within the connection's time-out; return how many bytes."""
    view, done = memoryview(data), 0
    try:
        while done < len(view):
            done += wire.socket.send(view[done : done + 65536])
    except OSError:
        pass
    return done


def asked(wire: Wire, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Answer | None:
    """Return an answer, C{None} where the peer closed the connection or did not answer in time."""
    try:
        return wire.call(code, fields, body)
    except (OSError, EOFError):
        return None


# -- frames and connections ----------------------------------------------------------------------------------


def churn(stage: Stage) -> None:
    """Begin a frame of 16 MiB, send 1 MB of it, close; again and again (F21)."""
    part = struct.pack(">i", 16 * MIB) + bytes(10**6)
    count = stage.aim.size(200, 2500)
    for _ in range(count):
        wire = Wire(stage.aim.broker)
        give(wire, part)
        wire.close()
    stage.note(closings=count, sent_mb=count)
    stage.held()


def churn_registry(stage: Stage) -> None:
    """The same at a registry, in larger parts."""
    part = struct.pack(">i", 16 * MIB) + bytes(4 * 10**6)
    count = stage.aim.size(50, 500)
    for _ in range(count):
        wire = Wire(stage.aim.registry)
        give(wire, part)
        wire.close()
    stage.note(closings=count, sent_mb=4 * count)
    stage.held()


def unfinished(stage: Stage) -> None:
    """Keep connections in the middle of frames of 16 MiB, 15 MiB of each sent (F23)."""
    wires = opened(stage.aim.broker, stage.aim.size(20, 100), timeout=2.0)
    sent = 0
    for wire in wires:
        asked(wire, MAX_OFFSET, {"topic": "Bystander", "queueId": "0"})
        sent += give(wire, struct.pack(">i", 16 * MIB) + bytes(15 * MIB))
    stage.note(connections=len(wires), taken_mb=sent // 10**6)
    stage.held()
    closed(wires)


def storm(stage: Stage) -> None:
    """Open and close connections as fast as it goes: silent, half-closed, in the middle of a TLS hello (F21)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    hello = context.wrap_bio(ssl.MemoryBIO(), out)
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        pass
    begun = out.read()
    end, count, failed = stage.seconds(3, 60), 0, 0
    kept: list[Wire] = []
    while time.monotonic() < end:
        try:
            wire = Wire(stage.aim.broker, 5.0)
            if count % 3 == 0:
                wire.send(begun)
            elif count % 3 == 1:
                wire.socket.shutdown(socket.SHUT_WR)
        except OSError:
            failed += 1
            continue
        kept.append(wire)
        count += 1
        if len(kept) > 500:
            kept.pop(0).close()
    stage.note(connections=count, failed=failed)
    stage.held()
    closed(kept)


def idle(stage: Stage) -> None:
    """Many connections that asked once and say nothing more (F20)."""
    wires = opened(stage.aim.broker, stage.aim.size(500, 9500))
    question = request(MAX_OFFSET, {"topic": "Bystander", "queueId": "0"})
    for wire in wires:
        give(wire, question)
    end = stage.seconds(3, 30)
    stage.note(connections=sum(_answered(wire, end) for wire in wires))
    stage.held()
    closed(wires)


def _answered(wire: Wire, end: float) -> bool:
    """Tell whether a connection is answered before a moment of the monotonic clock."""
    wire.socket.settimeout(max(end - time.monotonic(), 0.01))
    try:
        wire.answer()
    except (OSError, EOFError):
        return False
    return True


# -- requests ------------------------------------------------------------------------------------------------


def flood(stage: Stage) -> None:
    """Pipeline small requests on many connections as fast as they are taken."""
    _flood(stage, stage.aim.size(20, 200), reads=True)


def unread(stage: Stage) -> None:
    """The same, never reading an answer, with small buffers."""
    _flood(stage, stage.aim.size(20, 50), reads=False)


def _flood(stage: Stage, connections: int, reads: bool) -> None:
    wires = opened(stage.aim.broker, connections) if reads else _deaf(stage.aim.broker, connections)
    for wire in wires:
        wire.socket.setblocking(False)
    data = request(MAX_OFFSET, {"topic": "Bystander", "queueId": "0"}) * 1000
    left = dict.fromkeys(wires, b"")
    end, sent = stage.seconds(5, 20), 0
    while time.monotonic() < end:
        for wire in wires:
            left[wire] = left[wire] or data
            try:
                count = wire.socket.send(left[wire])
                left[wire], sent = left[wire][count:], sent + count
                if reads:
                    wire.socket.recv(MIB)
            except OSError:
                continue
    stage.note(connections=len(wires), sent_mb=round(sent / 10**6, 1))
    stage.held()
    closed(wires)


def _deaf(address: Address, count: int) -> list[Wire]:
    return [Wire(address, 10.0, receive_buffer=4096) for _ in range(count)]


def long_polls(stage: Stage) -> None:
    """Long polls with a time-out each of its own, hours long, until all room for them is taken."""
    wires = opened(stage.aim.broker, 4)
    first = asked(wires[0], SEND_V2, send_fields("Polled"), b"x")
    end = int((first.fields if first else {}).get("queueOffset", "0")) + 1
    asked(wires[0], PULL, pull_fields("Polled", 0, 0))  # makes the group
    count = stage.aim.size(3000, 16384)
    for number in range(count):
        for place, wire in enumerate(wires):
            give(wire, request(PULL, pull_fields("Polled", end, 600_000 + 500 * (number * 4 + place))))
    stage.note(polls=4 * count)
    stage.held()
    closed(wires)


def fat_polls(stage: Stage) -> None:
    """Held pulls with a body of 15 MiB each, which no pull needs, and such with long headers."""
    wires = opened(stage.aim.broker, 2, timeout=5.0)
    asked(wires[0], SEND_V2, send_fields("Polled"), b"x")
    asked(wires[0], PULL, pull_fields("Polled", 0, 0))
    body, sent = bytes(15 * MIB), 0
    for _ in range(stage.aim.size(20, 60)):
        sent += give(wires[0], request(PULL, pull_fields("Polled", 1000, 600_000), body))
    long = {**pull_fields("Polled", 1000, 600_000), "pad": "x" * 250_000}
    for _ in range(stage.aim.size(300, 3000)):
        sent += give(wires[1], request(PULL, long))
    stage.note(taken_mb=sent // 10**6)
    stage.held()
    closed(wires)


def locks(stage: Stage) -> None:
    """Locks on queues of brokers that are made up."""
    wire = Wire(stage.aim.broker, 60.0)
    asked(wire, SEND_V2, send_fields("Locked"), b"x")
    granted = 0
    for turn in range(stage.aim.size(3, 15)):
        queues = [{"brokerName": f"b{turn}-{number}", "queueId": 0, "topic": "Locked"} for number in range(40_000)]
        body = json.dumps({"clientId": "c", "consumerGroup": f"g{turn}", "mqSet": queues}).encode()
        answer = asked(wire, LOCK, body=body)
        if answer is not None and answer.code == 0:
            granted += len(json.loads(answer.body).get("lockOKMQSet", []))
    stage.note(granted=granted)
    stage.held()
    wire.close()


def groups(stage: Stage) -> None:
    """Heartbeats of consumers in a thousand groups each; then look whether a group of another address is still made."""
    wires = opened(stage.aim.broker, stage.aim.size(5, 20), source="127.0.0.2")  # half of the table is its share
    taken = 0
    for number, wire in enumerate(wires):
        consumers = [_consumer(f"attack-{number}-{group}") for group in range(900)]
        body = json.dumps({"clientID": f"c{number}", "consumerDataSet": consumers, "producerDataSet": []}).encode()
        answer = asked(wire, HEARTBEAT, body=body)
        taken += answer is not None and answer.code == 0
    other = Wire(stage.aim.broker)
    asked(other, SEND_V2, send_fields("Plain"), b"x")
    answer = asked(other, PULL, pull_fields("Plain", 0, 0, "someone-else"))
    stage.note(heartbeats_taken=taken, other_group=None if answer is None else answer.code)
    stage.held()
    closed([*wires, other])


def _consumer(group: str) -> dict[str, object]:
    return {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": group,
        "messageModel": "CLUSTERING", "unitMode": False,
        "subscriptionDataSet": [{
            "classFilterMode": False, "codeSet": [], "expressionType": "TAG", "subString": "*", "subVersion": 1,
            "tagsSet": [], "topic": "Plain",
        }],
    }  # fmt: skip


def topics(stage: Stage) -> None:
    """One request that makes tens of thousands of topics, and sends to as many more names (F26)."""
    wire = Wire(stage.aim.broker, 60.0)
    names = [f"attack-{number}" for number in range(stage.aim.size(30_000, 50_000))]
    configs = [
        {"topicName": name, "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicFilterType": "SINGLE_TAG"}
        for name in names
    ]
    answer = asked(wire, CREATE_TOPIC_LIST, body=json.dumps({"topicConfigList": configs}).encode())
    refused = 0
    for number in range(stage.aim.size(300, 20_000)):
        sent = asked(wire, SEND_V2, send_fields(f"made-up-{number}"), b"x")
        refused += sent is None or sent.code != 0
    other = asked(Wire(stage.aim.broker), SEND_V2, send_fields("Bystander"), b"x")
    stage.note(list_answer=None if answer is None else answer.code, refused=refused)
    stage.note(other_send=None if other is None else other.code)
    stage.held()
    wire.close()


def mutated(stage: Stage) -> None:
    """Frames of every kind with bytes changed, cut and repeated at random, to the broker and its HA port (F24)."""
    chance = random.Random(SEED)
    kinds = [
        request(SEND_V2, send_fields("Fuzzed", properties="TAGS\x01a\x02KEYS\x01k\x02"), b"body"),
        request(PULL, pull_fields("Fuzzed", 0, 1000)),
        request(HEARTBEAT, body=json.dumps({"clientID": "c", "consumerDataSet": [_consumer("g")]}).encode()),
        request(LOCK, body=b'{"clientId":"c","consumerGroup":"g","mqSet":[]}'),
        request(MAX_OFFSET, {"topic": "Fuzzed", "queueId": "0"}),
        frame(struct.pack(">hBhiii", MAX_OFFSET, 0, 409, 7, 0, 0) + struct.pack(">i", 0)),
        *(request(code, {"topic": "Fuzzed"}, b"{}") for code in range(10, 60)),
    ]
    sent = 0
    for number in range(stage.aim.size(400, 20_000)):
        data = bytearray(chance.choice(kinds))
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        target = stage.aim.ha if number % 10 == 0 else stage.aim.broker
        try:
            wire = Wire(target, 5.0)
            wire.send(bytes(data))
            wire.close()
            sent += 1
        except OSError:
            continue
    stage.note(frames=sent)
    stage.held()


# -- the registry --------------------------------------------------------------------------------------------


def takeover(stage: Stage) -> None:
    """Unregister a broker of somebody else and register its name with another address."""
    wire = Wire(stage.aim.registry)
    mine = "127.0.0.1:1"
    host, port = stage.aim.broker
    fields = {
        "brokerName": stage.aim.broker_name, "brokerAddr": f"{host}:{port}", "clusterName": "DefaultCluster",
        "brokerId": "0",
    }  # fmt: skip
    asked(wire, UNREGISTER, fields)
    sent = frame_answer(wire, registration(stage.aim.broker_name, mine, ["Bystander"]))
    stage.note(registered=None if sent is None else sent.code)
    stage.note(route_is_mine=_leads_to(stage, mine))
    stage.held()
    stage.note(route_is_mine_later=_leads_to(stage, mine))
    wire.close()


def frame_answer(wire: Wire, data: bytes) -> Answer | None:
    """Send a frame that was made before, and return the next answer."""
    try:
        wire.send(data)
        return wire.answer()
    except (OSError, EOFError):
        return None


def _leads_to(stage: Stage, address: str) -> bool:
    answer = asked(Wire(stage.aim.registry), ROUTE, {"topic": "Bystander"})
    return answer is not None and address.encode() in answer.body


def many_routes(stage: Stage) -> None:
    """Register a broker with more topics than anybody has, twice; then look whether a real topic gets a route."""
    wires = []
    codes = []
    for turn in range(2):
        wire = Wire(stage.aim.registry, 60.0)
        names = [f"route-{turn}-{number}" for number in range(stage.aim.size(40_000, 100_000))]
        answer = frame_answer(wire, registration(f"made-up-{turn}", f"127.0.0.1:{2 + turn}", names))
        codes.append(None if answer is None else answer.code)
        wires.append(wire)
    stage.note(answers=codes)
    stage.held()
    closed(wires)


def log_flood(stage: Stage) -> None:
    """One-way requests that each have something to be logged: at the registry, and at the broker."""
    registry, broker = Wire(stage.aim.registry), Wire(stage.aim.broker)
    count = stage.aim.size(2000, 20_000)
    for number in range(count):
        name = f"flap-{number % 100}"
        where = f"127.0.0.1:{20_000 + number % 100}"
        fields = {"brokerName": name, "brokerAddr": where, "clusterName": "x", "brokerId": "0"}
        give(registry, request(DELETE_TOPIC_AT_REGISTRY, {"topic": f"nope-{number}"}, flag=ONE_WAY))
        give(registry, registration(name, where, [], flag=ONE_WAY))
        give(registry, request(UNREGISTER, fields, flag=ONE_WAY))
        group = {"groupName": f"group-{number}"}
        give(broker, request(CREATE_GROUP, body=json.dumps(group).encode(), flag=ONE_WAY))
        give(broker, request(DELETE_GROUP, group, flag=ONE_WAY))
    asked(registry, CLUSTER)
    asked(broker, MAX_OFFSET, {"topic": "Bystander", "queueId": "0"})
    stage.note(requests=5 * count)
    stage.held()
    closed([registry, broker])


def kv_flood(stage: Stage) -> None:
    """Fill the table of settings at the registry, then change a small one again and again."""
    wire = Wire(stage.aim.registry, 60.0)
    for number in range(stage.aim.size(8, 60)):
        asked(wire, PUT_KV, {"namespace": "n", "key": f"k{number}", "value": "x" * 250_000})
    end, puts = stage.seconds(2, 10), 0
    while time.monotonic() < end:
        asked(wire, PUT_KV, {"namespace": "n", "key": "k1", "value": str(puts)})
        puts += 1
    stage.note(puts=puts)
    stage.held()
    wire.close()


# -- the REST API --------------------------------------------------------------------------------------------


def silent_http(stage: Stage) -> None:
    """More connections to the REST API than it takes, none of which says anything."""
    assert stage.aim.ops is not None
    wires = opened(stage.aim.ops, stage.aim.size(600, 2000))
    stage.note(connections=len(wires), ready=_http(stage.aim.ops, "GET", "/api/v1/ready")[0])
    stage.held()
    closed(wires)


def bombs(stage: Stage) -> None:
    """Messages of 16 KiB that inflate to 16 MiB each, and a search that looks into all bodies."""
    assert stage.aim.ops is not None
    packed = zlib.compress(b"A" * (16 * MIB), 9)
    wire = Wire(stage.aim.broker)
    count = stage.aim.size(60, 300)
    for _ in range(count):
        asked(wire, SEND_V2, send_fields("Bombs", sys_flag=1, properties="KEYS\x01k\x02"), packed)
    question = json.dumps({"topic": "Bombs", "body": "zzz"}).encode()
    while _http(stage.aim.ops, "POST", "/api/v1/messages/search", question)[0] == 404:
        time.sleep(0.1)  # the registries do not know the topic yet
    answers = [_http(stage.aim.ops, "POST", "/api/v1/messages/search", question)[0] for _ in range(3)]
    shown = _http(stage.aim.ops, "GET", "/api/v1/messages?topic=Bombs&key=k")
    stage.note(bombs=count, searches=answers, shown=shown[0], shown_kib=len(shown[1]) >> 10)
    stage.held()
    wire.close()


def _http(address: Address, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return status and body; status 0 where there is no answer."""
    head = f"{method} {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    token = os.environ.get("SMARTGO_ATTACK_TOKEN")
    if token:
        head += f"Authorization: Bearer {token}\r\n"
    try:
        with socket.create_connection(address, 20.0) as made:
            made.sendall(head.encode() + b"\r\n" + body)
            data = b"".join(iter(lambda: made.recv(1 << 16), b""))
    except OSError:
        return 0, b""
    first, _, rest = data.partition(b"\r\n\r\n")
    words = first.split(b" ", 2)
    return (int(words[1]), rest) if len(words) > 1 else (0, b"")


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        churn, churn_registry, unfinished, storm, idle, flood, unread, long_polls, fat_polls, locks, groups, topics,
        mutated, takeover, many_routes, log_flood, kv_flood, silent_http, bombs,
    )
}  # fmt: skip
"""By name."""
