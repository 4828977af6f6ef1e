"""Replication between brokers that have a key (reliability X6)."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, succeed
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import LogLevel, capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from smartgo.broker.broker import Broker
from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.processors.logend import RemoteTail
from smartgo.cli.support.embedded import configuration_of
from smartgo.env.real import RealEnvironment
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ha.interfaces import SlaveState, Tail
from smartgo.remoting.client import RemotingClient
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.hatransfer import report_struct
from smartgo.schema.headers.ha import TailAnswer, TailRequest
from smartgo.schema.signature import AccessKey
from tests.broker.cluster.test_replication import SLAVE, Pair, PairCase
from tests.broker.fakecluster import BROKER, opened, send_command
from tests.remoting.doubles import sweeper_of

SECRET = "a-secret-of-ours"
KEY = {"haAccessKey": "smartgo-ha", "haSecretKey": SECRET}
CREDENTIALS = AccessKey(KEY["haAccessKey"], SECRET)
CHALLENGE = "c0" * 24


def question(**fields: Any) -> Command:
    """The question before the stream."""
    return Command.request(RequestCode.GET_LOG_TAIL, TailRequest(begin=0, end=0, **fields))


def followed(pair: Pair) -> tuple[SlaveState | None, str]:
    """Return the state of the slave, and the reason."""
    now = pair.followed.replication.now()
    return now.state, now.reason


class KeyTests(PairCase):
    """Pairs with keys, the same or others."""

    def test_same(self) -> None:
        """With the same key on both the log and the tables are copied, after a restart of either, too."""
        pair = self.start(KEY, **KEY)
        pair.send("T")
        pair.pump(11.0)
        self.assertEqual(followed(pair), (SlaveState.FOLLOWING, ""))
        pair.stop_master()
        pair.pump(1.0)
        pair.start_master(**KEY)
        pair.pump(6.0)
        pair.send("T")
        pair.pump(1.0)
        pair.stop_slave()
        pair.start_slave()
        pair.pump(4.0)
        self.assertEqual(followed(pair), (SlaveState.FOLLOWING, ""))
        master, slave = pair.logs()
        self.assertEqual(master, slave)
        self.assertIn("T", pair.followed.topics)

    def test_sync(self) -> None:
        """A SYNC_MASTER with a key counts a slave that has it."""
        pair = self.start(KEY, brokerRole="SYNC_MASTER", **KEY)
        self.assertEqual(pair.send("T").code, 0)

    def test_other(self) -> None:
        """Without the key, or with another, nothing is copied, and the slave's state says what to do."""
        for settings, said in (
            ({}, "give the slave the master's haAccessKey and haSecretKey"),
            ({**KEY, "haSecretKey": "another-secret"}, "the slave's haAccessKey and haSecretKey are not the master's"),
        ):
            with capturedLogs() as events:
                pair = self.start(settings, brokerRole="SYNC_MASTER", **KEY)
            logged = [one for one in events if one.get("log_format") == "not replicating to {slave}: {why}"]
            self.assertEqual([(one["slave"], said in one["why"]) for one in logged], [("127.0.0.1", True)])
            self.assertEqual(pair.send("T").code, ResponseCode.SLAVE_NOT_AVAILABLE)
            pair.pump(30.0)
            state, reason = followed(pair)
            self.assertEqual(state, SlaveState.CONNECTING)
            self.assertTrue(reason.startswith("response code 16: ") and said in reason, reason)
            self.assertEqual(list(pair.followed.store.queues()), [])
            self.assertEqual(pair.broker.replication.now().slaves, [])
            runtime = pair.ask(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), SLAVE)
            self.assertIn(said.encode(), runtime.body)
            pair.stop_slave()
            pair.settings.update(KEY)
            pair.start_slave()
            self.assertEqual(followed(pair), (SlaveState.FOLLOWING, ""))

    def test_master_without(self) -> None:
        """A slave that has a key follows a master that asks for none, and says once that nobody guards the log."""
        with capturedLogs() as events:
            pair = self.start(KEY)
            pair.send("T")
            for _ in range(3):
                pair.stop_master()
                pair.pump(1.0)
                pair.start_master()
                pair.pump(6.0)
            self.assertEqual(followed(pair), (SlaveState.FOLLOWING, ""))
        said = [one for one in events if "asks for none" in (one.get("log_format") or "")]
        self.assertEqual([(one["log_level"], one["master"]) for one in said], [(LogLevel.warn, BROKER)])

    def test_recorded(self) -> None:
        """A signed question that somebody recorded is worth nothing, be it sent again at once."""
        pair = self.start(KEY, **KEY)
        request = question(follow=True)
        CREDENTIALS.sign(request)
        challenge = pair.ask(request).fields["challenge"]
        request = question(follow=True, challenge=challenge)
        CREDENTIALS.sign(request)
        recorded = encode(request)[4:]
        first, second = pair.ask(decode(recorded)), pair.ask(decode(recorded))
        self.assertEqual((first.code, len(first.read(TailAnswer).ticket or "")), (0, 48))
        self.assertEqual((second.code, "ticket" in second.fields), (ResponseCode.NO_PERMISSION, False))
        self.assertNotEqual(second.fields["challenge"], challenge)

    def test_only_who_follows(self) -> None:
        """Only who is about to follow is given a ticket: a slave asks for the master's end all the time."""
        pair = self.start(KEY, **KEY)
        answers: list[Command] = []

        async def kept(asked: Deferred[Command]) -> Command:
            answers.append(await asked)
            return answers[-1]

        def ask(address: str, request: Command, timeout: float) -> Deferred[Command]:
            return ensureDeferred(kept(pair.client.ask(address, request, timeout)))

        tail = RemoteTail(ask, CREDENTIALS)
        for follow in (False, True, False):
            told: list[Any] = []
            tail.ask(BROKER, 0, 0, follow).addBoth(told.append)
            pair.pump(0.5)
            self.assertEqual(len(told[0].ticket), 24 * follow)
        self.assertEqual([one.code for one in answers], [16, 0, 0, 0])  # each answer has the next challenge

    def test_secret(self) -> None:
        """Neither name nor secret of the key are shown to who reads settings, or logged (reliability X8, X18)."""
        with capturedLogs() as events:
            pair = self.start(KEY, **KEY)
            for address in (BROKER, SLAVE):
                answer = pair.ask(Command.request(RequestCode.GET_BROKER_CONFIG), address)
                self.assertIn(b"haSecretKey=***", answer.body.splitlines())
                self.assertNotIn(SECRET.encode(), answer.body)
                self.assertNotIn(b"smartgo-ha", answer.body)
        self.assertGreater(len(events), 3)
        self.assertNotIn(SECRET, repr(events))


class RemoteTailTests(PairCase):
    """The slave's reading of answers."""

    def remote(self, credentials: AccessKey | None, *answers: Command) -> tuple[RemoteTail, list[Command]]:
        """Return who asks masters that answer so, and what they will have been asked."""
        asked: list[Command] = []
        left = list(answers)

        def answer(address: str, request: Command, timeout: float) -> Deferred[Command]:
            asked.append(decode(encode(request)[4:]))
            return succeed(decode(encode(left.pop(0))[4:]))

        return RemoteTail(answer, credentials), asked

    def ask(self, credentials: AccessKey | None, *answers: Command) -> tuple[Any, list[Command]]:
        """Ask who answers so; return what came of it, and what was asked."""
        tail, asked = self.remote(credentials, *answers)
        told: list[Any] = []
        tail.ask("m:1", 0, 0, follow=True).addBoth(told.append)
        return told[0], asked

    def answered(self, code: int = 0, **fields: str) -> Command:
        """An answer."""
        bounds = {"minOffset": "0", "maxOffset": "9"}
        return question().answer(code, "no", fields=fields if code else {**bounds, **fields})

    def test_challenged(self) -> None:
        """A challenge is signed once, in the same attempt; a second one in a row waits for the next."""
        challenged = self.answered(16, challenge=CHALLENGE)
        tail, asked = self.ask(CREDENTIALS, challenged, self.answered(ticket="ab" * 24))
        self.assertEqual(tail, Tail(0, 9, None, b"\xab" * 24))
        self.assertEqual([one.fields.get("challenge") for one in asked], [None, CHALLENGE])
        self.assertTrue(all(CREDENTIALS.signed(one) for one in asked))
        failure, asked = self.ask(CREDENTIALS, challenged, challenged)
        self.assertEqual((failure.check(PeerRefused), len(asked)), (PeerRefused, 2))

    def test_given(self) -> None:
        """A challenge is signed for who gave it, and once, whatever becomes of it."""
        tail, asked = self.remote(
            CREDENTIALS,
            *[self.answered(challenge=str(number) * 48) for number in range(3)],
            *[self.answered(16), self.answered()],
        )
        for master in ("m:1", "m:1", "other:1", "other:1", "other:1"):
            tail.ask(master, 0, 0).addErrback(lambda failure: failure.trap(PeerRefused))
        self.assertEqual([one.fields.get("challenge") for one in asked], [None, "0" * 48, None, "2" * 48, None])

    def test_chosen(self) -> None:
        """What is no challenge is not signed: what a signature is worth elsewhere may depend on the text."""
        for chosen in ("c0", "x" * 48, CHALLENGE.upper(), CHALLENGE + " ", CHALLENGE * 3, ""):
            failure, asked = self.ask(CREDENTIALS, self.answered(16, challenge=chosen))
            self.assertEqual((failure.check(PeerRefused), len(asked)), (PeerRefused, 1))

    def test_unguarded(self) -> None:
        """That a master asks for no key is said again when it has done so meanwhile, or it is another."""
        guarded = self.answered(ticket="ab" * 24)
        tail, _ = self.remote(CREDENTIALS, *[self.answered()] * 3, guarded, *[self.answered()] * 2)
        with capturedLogs() as events:
            for master in ("m:1", "m:1", "m:2", "m:2", "m:2", "m:2"):
                tail.ask(master, 0, 0, follow=True)
        self.assertEqual([one["master"] for one in events if "master" in one], ["m:1", "m:2", "m:2"])

    def test_no_key(self) -> None:
        """Without a key nothing is signed, and a challenge is a refusal as any other."""
        failure, asked = self.ask(None, self.answered(16, challenge=CHALLENGE))
        self.assertEqual((failure.check(PeerRefused), len(asked)), (PeerRefused, 1))
        self.assertEqual(asked[0].fields, {"begin": "0", "end": "0", "follow": "true"})

    def test_bad_ticket(self) -> None:
        """An answer whose ticket is none cannot be read."""
        for bad in ("ab", "xy" * 24, "ab" * 25):
            failure, _ = self.ask(CREDENTIALS, self.answered(ticket=bad))
            self.assertEqual(failure.check(CallFailed), CallFailed)
            self.assertIn("cannot be read", failure.getErrorMessage())


class Plain(Protocol):
    """A slave of RocketMQ: reports, and reads."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.gone: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Ask for all."""
        self.transport.write(report_struct.pack(0))

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Note the end of the connection."""
        self.gone.callback(None)


class SocketsTests(TestCase):
    """The same over real sockets and files."""

    timeout = 60

    def setUp(self) -> None:
        """Nobody is there yet."""
        from twisted.internet import reactor

        self.env = RealEnvironment(reactor)
        self.port, self.ha_port = self.env.network.free_port(), self.env.network.free_port()

    async def start(self, name: str, **settings: str) -> OpenBroker:
        """Start a broker."""
        flags = {
            "storePathRootDir": os.path.join(self.mktemp(), name),
            "mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "100", "maxIndexNum": "400",
            "brokerName": "broker-a", "fastPort": "false", "opsListen": "off",
            "broker.listenPort": str(self.port), "haListenPort": str(self.ha_port),
            **KEY, **settings,
        }  # fmt: skip
        broker = Broker(self.env, configuration_of(self.env, flags), sweeper_of(self.env.clock))
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.ready
        return opened(broker)

    def test_pair(self) -> Deferred[None]:
        """A slave with the key gets the log, and a plain one that connects to the port not a byte of it."""
        return ensureDeferred(self._pair())

    async def _pair(self) -> None:
        self.addCleanup(self.env.threads.stop)
        master = await self.start("master")
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        self.addCleanup(client.stop)
        sent = await client.ask(f"127.0.0.1:{self.port}", send_command("T"), 10.0)
        self.assertEqual(sent.code, 0)
        end = master.store.log_bounds()[1]
        plain = Plain()
        with capturedLogs() as events:
            await self.env.network.connect("127.0.0.1", self.ha_port, Factory.forProtocol(lambda: plain), 10.0)
            slave = await self.start(
                "slave",
                brokerRole="SLAVE",
                brokerId="1",
                haMasterAddress=f"127.0.0.1:{self.ha_port}",
                masterAddress=f"127.0.0.1:{self.port}",
                **{"broker.listenPort": "0", "haListenPort": "0"},
            )
            copied: Deferred[None] = Deferred()

            def moved(reached: int) -> None:
                if reached >= end and not copied.called:
                    copied.callback(None)

            slave.store.follow(moved)
            moved(slave.store.log_bounds()[1])
            await copied
            await plain.gone
        self.assertEqual(plain.heard, b"")
        said = [one for one in events if "not replicating to" in (one.get("log_format") or "")]
        self.assertEqual(len(said), 1)
        self.assertIn("shows no ticket (RocketMQ slaves never do)", said[0]["why"])
        self.assertEqual([one.confirmed >= 0 for one in master.replication.now().slaves], [True])
