"""Signed frames: the runs of sends and pulls by themselves, and in a whole broker with access control."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.processors.pull import PullProcessor
from smartgo.broker.processors.send import SendProcessor
from smartgo.broker.sendrun import PureSendRun, SendAnswers, SendRules, SendRun
from smartgo.core import CORE, IS_COMPILED
from smartgo.net.link import Link
from smartgo.remoting.rungrants import NoRunGrants, RunGrants
from smartgo.schema.batch import encode_items
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandlayout import BINARY, JSON
from smartgo.schema.responses import send_pieces
from smartgo.schema.signature import AccessKey
from tests.broker.fakecluster import pull_command, send_command
from tests.broker.sendtape import SocketClient
from tests.broker.test_sendrun import FIELDS, HERE, LONG, PEER, Log, binary_frame, json_frame, queue_of
from tests.fakes import FakeEnvironment
from tests.node.securedcluster import ADMIN, SENDER, SecuredCluster, lay
from tests.sockets import SocketNetwork

KEY = AccessKey("a-sender", "a-sender-secret")
RULES: dict[str, Any] = {
    "store_host": HERE, "added": b"CLUSTER\x01c1", "special": (b"DELAY",), "body_limit": 4000, "count_limit": 3,
    "later": False,
}  # fmt: skip


def signed(fields: dict[str, str], body: bytes = b"body", key: AccessKey = KEY) -> dict[str, str]:
    """Ext fields with a signature."""
    command = Command.request(310, fields=fields, body=body)
    key.sign(command)
    return dict(command.fields)


class RunTests(SynchronousTestCase):
    """Runs of sends that ask grants."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def setUp(self) -> None:
        """A run over one log and one queue."""
        self.log = Log()
        self.queue = queue_of()
        self.asked: list[tuple[str, int, str, str]] = []
        self.allowed = {("a-sender", code, "T", ""): b"a-sender-secret" for code in (10, 310, 320)}
        self.grants = RunGrants(self.learn)
        answers = SendAnswers(HERE.hex().upper().encode(), *send_pieces("R1", True))
        rules = SendRules(**RULES)
        self.run_of_sends = SendRun(self.log, lambda topic, queue_id: self.queue, rules, answers, self.grants)

    def learn(self, name: str, code: int, topic: str, group: str) -> bytes | None:
        self.asked.append((name, code, topic, group))
        return self.allowed.get((name, code, topic, group))

    def taken(self, *frames: bytes) -> int:
        """How many are taken; what is not has changed nothing."""
        before, out = (self.log.end, self.queue.next_offset, bytes(self.log.file)), list[Any]()
        count = self.run_of_sends.take(list(frames), 0, PEER, out, 1 << 20, 100)
        if not count:
            self.assertEqual((self.log.end, self.queue.next_offset, bytes(self.log.file), out), (*before, []))
        return count

    def test_right(self) -> None:
        """A frame with the right signature is taken, whatever its code, its header, its fields' order and its body."""
        chance = random.Random(4)
        for fields, code in ((FIELDS, 310), (LONG, 10), ({**FIELDS, "i": "WAIT\x01true"}, 320)):
            for make in (json_frame, binary_frame):
                for size in (0, 1, 50, 63, 64, 65, 1024):
                    body = bytes(size) if code != 320 else encode_items([(0, bytes(size), b"k\x01v")])
                    more = {"n": "broker-a", "zz": "é中", "": "x", "Aa": '"\\/\t', "S": ""}
                    all_fields = list(signed({**fields, **more} if size else fields, body).items())
                    chance.shuffle(all_fields)
                    self.assertEqual(self.taken(make(dict(all_fields), body, code)), 1, (code, size, make))
        self.assertEqual([code for _, code, _, _ in self.asked], [310, 10, 320])  # each is asked for once

    def test_wrong(self) -> None:
        """A frame of which anything was changed after it was signed is not taken."""
        fields = signed(FIELDS)
        for make in (json_frame, binary_frame):
            self.assertEqual(self.taken(make(fields)), 1)
            self.assertEqual(self.taken(make(fields, b"Body")), 0)
            self.assertEqual(self.taken(make(fields, b"")), 0)
            for name in (*FIELDS, "AccessKey"):
                self.assertEqual(self.taken(make({**fields, name: f"{fields[name]}0"})), 0, name)
            self.assertEqual(self.taken(make({**fields, "n": "more"})), 0)
            self.assertEqual(self.taken(make({**fields, "_UNIQUE_KEY_QUERY": "true"})), 0)
            said = fields["Signature"]
            for at in range(len(said)):
                changed = said[:at] + ("A" if said[at] != "A" else "B") + said[at + 1 :]
                self.assertEqual(self.taken(make({**fields, "Signature": changed})), 0, at)
            for changed in ("", said[:-1], f"{said}=", f" {said}"):
                self.assertEqual(self.taken(make({**fields, "Signature": changed})), 0, changed)
            for name in ("Signature", "AccessKey"):
                rest = {one: value for one, value in fields.items() if one != name}
                self.assertEqual(self.taken(make(rest)), 0, name)
            self.assertEqual(self.taken(make(FIELDS)), 0)

    def test_twice(self) -> None:
        """A frame with a field twice is not taken, even one that means nothing to a send."""
        fields = signed({**FIELDS, "zz": "1"})
        whole = json_frame(fields)
        self.assertEqual(self.taken(whole), 1)
        for name in ("zz", "Signature", "AccessKey"):
            member = f'"{name}":"{fields[name]}"'.encode()
            header = whole[4:-4].replace(member, member + b"," + member)
            self.assertEqual(self.taken(len(header).to_bytes(4, "big") + header + whole[-4:]), 0, name)
        header = whole[4:-4].replace(b'"flag":0', b'"extFields":{"y":""},"flag":0')
        self.assertEqual(self.taken(len(header).to_bytes(4, "big") + header + whole[-4:]), 0)

    def test_keys(self) -> None:
        """Only who may send to the topic is let pass, with a secret of any size; what is not known is asked again."""
        for name, secret in (("a-stranger", "a-sender-secret"), ("a-sender", "another-secret")):
            self.assertEqual(self.taken(json_frame(signed(FIELDS, key=AccessKey(name, secret)))), 0, name)
        self.assertEqual(self.taken(json_frame(signed({**FIELDS, "b": "U"}))), 0)
        self.assertEqual(self.taken(json_frame(signed({**FIELDS, "b": "U"}))), 0)
        self.assertEqual(self.asked.count(("a-sender", 310, "U", "")), 2)
        for size in (7, 63, 64, 65, 200):
            key = AccessKey(f"key-{size}", "é" + "x" * (size - 2))
            self.allowed[key.access_key, 310, "T", ""] = key.secret
            for _ in range(2):
                self.assertEqual(self.taken(json_frame(signed(FIELDS, key=key))), 1, size)
                self.assertEqual(self.taken(json_frame(signed(FIELDS))), 1)

    def test_forget(self) -> None:
        """New rules count from the next frame on."""
        frame = json_frame(signed(FIELDS))
        self.assertEqual(self.taken(frame, frame), 2)
        self.allowed.clear()
        self.assertEqual(self.taken(frame), 1)
        self.grants.forget()
        self.assertEqual(self.taken(frame), 0)
        self.allowed["a-sender", 310, "T", ""] = b"a-new-secret"
        self.assertEqual(self.taken(frame), 0)
        self.assertEqual(self.taken(json_frame(signed(FIELDS, key=AccessKey("a-sender", "a-new-secret")))), 1)

    def test_unsigned(self) -> None:
        """On a connection of an account's, a frame without a key is taken as that account's; one with a key is not."""
        fields = signed(FIELDS)
        for make in (json_frame, binary_frame):
            unsigned, keyless = make(FIELDS), make({**FIELDS, "Signature": "x"})
            self.assertEqual(self.taken(unsigned), 0)
            self.grants.unsigned_as("a-sender")
            self.assertEqual(self.taken(unsigned, keyless, make({**FIELDS, "AccessKey": ""})), 3)
            self.assertEqual(self.taken(make({**FIELDS, "b": "U"})), 0)
            self.assertEqual(self.taken(make({**fields, "Signature": "x"})), 0)
            self.assertEqual(self.taken(make({**FIELDS, "AccessKey": "a-sender"})), 0)
            self.assertEqual(self.taken(make(fields)), 1)
            mixed = [unsigned, make(fields), make({**FIELDS, "b": "U"}), unsigned]
            self.assertEqual(self.taken(*mixed), 2)  # the account has no right for U
            self.grants.unsigned_as("a-stranger")
            self.assertEqual(self.taken(unsigned), 0)
            self.grants.unsigned_as("")
            self.assertEqual(self.taken(unsigned), 0)
        self.assertEqual(self.asked.count(("a-sender", 310, "T", "")), 1)

    def test_unsigned_twice(self) -> None:
        """Of a frame without a key, a field that means nothing may stand twice; a key never may."""
        self.grants.unsigned_as("a-sender")
        for name, value, count in (("zz", "1", 1), ("AccessKey", "a-sender", 0), ("AccessKey", "", 0), ("b", "T", 0)):
            whole = json_frame({**FIELDS, name: value})
            member = f'"{name}":"{value}"'.encode()
            header = whole[4:-4].replace(member, member + b"," + member)
            self.assertEqual(self.taken(len(header).to_bytes(4, "big") + header + whole[-4:]), count, (name, value))

    def test_many(self) -> None:
        """The table of what is granted is emptied when it is full."""
        frames = []
        for number in range(4100):
            key = AccessKey(f"key-{number}", "a-secret")
            self.allowed[key.access_key, 310, "T", ""] = key.secret
            frames.append(json_frame(signed(FIELDS, b"", key), b""))
        self.queue.reserved = 100_000
        for frame in frames:
            self.log.end = self.log.base + 100
            self.assertEqual(self.run_of_sends.take([frame], 0, PEER, [], 1 << 20, 1), 1)
        self.assertEqual(len(self.asked), 4100)
        self.assertEqual(self.taken(frames[0], frames[4099]), 2)
        self.assertEqual(len(self.asked), 4101)


class PureRunTests(SynchronousTestCase):
    def test_none(self) -> None:
        """Without the core no frame is taken where grants have to be asked."""
        answers = SendAnswers(HERE.hex().upper().encode(), *send_pieces("R1", True))
        queue, asked = queue_of(), list[Any]()
        for grants, taken in ((NoRunGrants(lambda *names: asked.append(names)), 0), (None, 1)):
            run = PureSendRun(Log(), lambda topic, queue_id: queue, SendRules(**RULES), answers, grants)
            self.assertEqual(run.take([json_frame(signed(FIELDS))], 0, PEER, [], 1 << 20, 1), taken)
        self.assertEqual(asked, [])


class BrokerTests(SynchronousTestCase):
    """A broker with access control, whose hub reads real sockets."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    rules = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- {accessKey: a-sender, secretKey: a-sender-secret, topicPerms: [orders=PUB|SUB], groupPerms: [CG=SUB]}
"""

    def setUp(self) -> None:
        """The broker, a topic with some messages, and one connection."""
        env = FakeEnvironment()
        env.network = network = SocketNetwork()
        self.cluster = SecuredCluster(env, self.rules)
        self.addCleanup(self.cluster.stop)
        for topic in ("orders", "other"):
            self.assertEqual(self.cluster.signed(ADMIN, send_command(topic)), (0, ""))
        self.connection = SocketClient(network)
        self.taken = 0
        took = Link.took

        def count(link: Link, frames: int) -> None:
            self.taken += frames
            took(link, frames)

        self.patch(Link, "took", count)
        self.ask(self.send())  # the first frame goes through the link
        self.ask(self.pull())  # creates the group

    def send(self, topic: str = "orders", key: AccessKey = SENDER, encoding: int = JSON) -> Command:
        command = send_command(topic)
        command.encoding = encoding
        key.sign(command)
        return command

    def pull(self, topic: str = "orders", key: AccessKey = SENDER, **more: Any) -> Command:
        command = pull_command(topic, **more)
        key.sign(command)
        return command

    def ask(self, *commands: Command) -> list[Command]:
        """The answers to some requests of one read."""
        for number, command in enumerate(commands):
            command.opaque = number
        self.connection.write(b"".join(map(encode, commands)))
        self.cluster.pump()
        data, found = self.connection.hear(), []
        while data:
            size = 4 + int.from_bytes(data[:4], "big")
            found.append(decode(data[4:size]))
            data = data[size:]
        return sorted(found, key=lambda answer: answer.opaque)

    def both(self, taken: int, *commands: Command) -> list[tuple[int, str]]:
        """Codes and remarks of the answers, which are the same in Python; the hub takes so many of the requests."""
        self.taken = 0
        found = [(one.code, one.remark or "") for one in self.ask(*commands)]
        self.assertEqual(self.taken, taken)
        nothing = mock.Mock(return_value=None)
        with (
            mock.patch.object(PullProcessor, "ready_run", nothing),
            mock.patch.object(SendProcessor, "ready_run", nothing),
            mock.patch.object(SendProcessor, "take", mock.Mock(return_value=0)),
        ):
            self.assertEqual([(one.code, one.remark or "") for one in self.ask(*commands)], found)
        return found

    def test_sends(self) -> None:
        """Sends with the right signature are taken, of all encodings; others are refused with Python's reasons."""
        self.both(3, self.send(), self.send(encoding=BINARY), self.send(key=ADMIN))
        self.assertEqual(self.both(0, self.send("other"))[0][1][:29], "No permission for topic other")
        forged = self.both(0, self.send(key=AccessKey("an-admin", "another-secret")))
        self.assertEqual(forged, [(1, "Check signature failed for accessKey=an-admin")])
        self.assertEqual(self.both(0, send_command("orders")), [(1, "No accessKey is configured")])

    def test_replayed(self) -> None:
        """A signature of one send is worth nothing for another topic, queue or body."""
        signature = self.send().fields["Signature"]
        for topic, queue_id, body in (("other", 0, b"body"), ("orders", 1, b"body"), ("orders", 0, b"more")):
            command = send_command(topic, body, queue_id)
            command.fields.update(AccessKey="a-sender", Signature=signature)
            ((code, remark),) = self.both(0, command)
            self.assertEqual((code, remark[:22]), (1, "Check signature failed"))
        plain = send_command("orders")
        plain.fields.update(AccessKey="a-sender", Signature=signature)
        self.both(1, plain)  # the very request

    def test_pulls(self) -> None:
        """Pulls that find messages are taken where the key may read topic and group."""
        self.assertEqual(self.both(1, self.pull()), [(0, "FOUND")])
        self.assertEqual(self.both(0, self.pull("other"))[0][1][:29], "No permission for topic other")
        self.assertEqual(self.both(0, self.pull(consumer_group="CH"))[0][1][:27], "No permission for group CH:")
        self.assertEqual(self.both(0, pull_command("orders")), [(1, "No accessKey is configured")])

    def test_changed_rules(self) -> None:
        """A key that was removed, or lost a right, is refused from the next read on; a new secret counts then."""
        self.both(2, self.send(), self.send())
        self.both(1, self.pull())
        for rules, said in (
            (self.rules.replace("orders=PUB|SUB", "orders=DENY"), "No permission for topic orders"),
            (self.rules.replace("a-sender,", "the-seller,"), "Check signature failed"),
            (self.rules.replace("a-sender-secret", "a-new-secret"), "Check signature failed"),
        ):
            lay(self.cluster.env, rules)
            self.cluster.access.reload()
            for command in (self.send(), self.pull()):
                ((code, remark),) = self.both(0, command)
                self.assertEqual((code, remark[: len(said)]), (1, said))
            lay(self.cluster.env, self.rules)
            self.cluster.access.reload()
            self.both(1, self.send())

    def test_changed_meanwhile(self) -> None:
        """Rules that change between two frames of one read count for the second one."""
        grant = self.cluster.access.control.grant
        frames = [self.send(), self.send(), self.send()]
        checks = 0

        def replace(peer: Any, request: Command) -> Any:
            nonlocal checks
            checks += 1
            if checks == 1:
                lay(self.cluster.env, self.rules.replace("orders=PUB|SUB", "orders=SUB"))
                self.cluster.access.reload()
            return before(peer, request)

        before = self.cluster.access.hook.before
        dispatcher = self.cluster.broker.requests.dispatcher
        self.patch(dispatcher, "_before", (replace,))
        frames.insert(1, Command.request(105, fields={"topic": "orders"}))
        answers = self.ask(*frames)
        self.assertIsNone(grant("a-sender", 310, "orders", ""))
        self.assertEqual(answers[0].code, 0)
        self.assertEqual([one.code for one in answers[2:]], [1, 1])
        self.assertIn("No permission for topic orders", answers[2].remark or "")
