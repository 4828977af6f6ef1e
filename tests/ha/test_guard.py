"""Tests of L{smartgo.ha.guard}, and of masters and slaves that have a key."""

from __future__ import annotations

from twisted.internet.address import IPv4Address
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import FramingError, NoPermission
from smartgo.ha.guard import CHALLENGE_LIFE, TICKET_LIFE, Guard, Words
from smartgo.ha.interfaces import SlaveState
from smartgo.ha.master import Master
from smartgo.ha.transfer import MasterEnd, SlaveEnd
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.hatransfer import TICKET_MARK, report_struct, ticket_struct
from smartgo.schema.headers.ha import TailRequest
from smartgo.schema.signature import AccessKey
from tests.fakes import FakeClock, FakeRandom
from tests.ha.fakes import FakeLog
from tests.ha.pair import PairCase, noise
from tests.ha.test_master import MasterCase
from tests.ha.test_slave import SlaveCase
from tests.ha.test_transfer import pieces

KEY = AccessKey("smartgo-ha", "a secret of ours")
WORD = bytes(range(24))

report = report_struct.pack


def ticket(word: bytes = WORD) -> bytes:
    """As a slave shows it."""
    return ticket_struct.pack(TICKET_MARK, word)


class WordsTests(SynchronousTestCase):
    """Words that count once."""

    def setUp(self) -> None:
        """None yet; they count for 10 s."""
        self.clock = FakeClock()
        self.words = Words(self.clock, FakeRandom(), 10.0, limit=5)

    def test_once(self) -> None:
        """Each is another, and counts once; what was never made does not."""
        words = [self.words.make() for _ in range(5)]
        self.assertEqual((len(set(words)), {len(word) for word in words}), (5, {24}))
        for word in reversed(words):
            self.assertEqual([self.words.take(word), self.words.take(word)], [True, False])
        for other in (b"", WORD, words[0][:-1]):
            self.assertFalse(self.words.take(other))

    def test_life(self) -> None:
        """They count for as long as was said, and those that are over are kept no longer than the next is made."""
        first = self.words.make()
        self.clock.advance(9.9)
        second = self.words.make()
        self.assertTrue(self.words.take(first))
        self.clock.advance(10.0)
        self.assertFalse(self.words.take(second))
        self.words.make()
        self.clock.advance(10.0)
        self.words.make()
        self.assertEqual(len(self.words), 1)

    def test_limit(self) -> None:
        """Where too many are made the oldest stop counting."""
        words = [self.words.make() for _ in range(7)]
        self.assertEqual(len(self.words), 5)
        self.assertEqual([self.words.take(word) for word in words], [False, False, True, True, True, True, True])


class GuardTests(SynchronousTestCase):
    """The questions that are answered."""

    def setUp(self) -> None:
        """A guard with our key."""
        self.clock = FakeClock()
        self.guard = Guard(self.clock, FakeRandom(), KEY)

    def question(self, challenge: str | None, key: AccessKey | None = KEY) -> Command:
        """A question as it arrives."""
        request = Command.request(RequestCode.GET_LOG_TAIL, TailRequest(begin=0, end=9, challenge=challenge))
        if key is not None:
            key.sign(request)
        return decode(encode(request)[4:])

    def check(self, challenge: str | None, key: AccessKey | None = KEY) -> bool:
        """Ask it."""
        return self.guard.check(self.question(challenge, key), challenge)

    def test_signed(self) -> None:
        """One that is signed over a challenge is, once: a recorded one is not."""
        challenge = self.guard.challenge()
        self.assertTrue(self.check(challenge))
        self.assertFalse(self.check(challenge))

    def test_no_challenge(self) -> None:
        """One that is signed over none, or none of ours, or an old one, has to be signed anew."""
        old = self.guard.challenge()
        self.clock.advance(CHALLENGE_LIFE)
        for challenge in (None, "", "00" * 24, "no digits", "\u0660" * 48, self.guard.challenge()[:-2], old):
            self.assertFalse(self.check(challenge), challenge)

    def test_wrong_key(self) -> None:
        """One that is not signed, or with another key, is refused with what to do, and uses up no challenge."""
        challenge = self.guard.challenge()
        error = self.assertRaises(NoPermission, self.check, challenge, None)
        self.assertIn("give the slave the master's haAccessKey and haSecretKey", str(error))
        remarks = set()
        for other in (AccessKey("smartgo-ha", "another secret"), AccessKey("other-key", "a secret of ours")):
            remarks.add(str(self.assertRaises(NoPermission, self.check, challenge, other)))
        self.assertEqual(len(remarks), 1)
        self.assertIn("haSecretKey are not the master's", remarks.pop())
        self.assertTrue(self.check(challenge))

    def test_ticket(self) -> None:
        """A ticket lets one connection in, and not for long; a challenge is none."""
        word = bytes.fromhex(self.guard.ticket())
        self.assertEqual([self.guard.admits(word), self.guard.admits(word)], [True, False])
        word = bytes.fromhex(self.guard.ticket())
        self.clock.advance(TICKET_LIFE)
        self.assertFalse(self.guard.admits(word))
        self.assertFalse(self.guard.admits(bytes.fromhex(self.guard.challenge())))


class EndsTests(SynchronousTestCase):
    """The stream, with a ticket before it."""

    def setUp(self) -> None:
        """A log."""
        self.log = FakeLog(b"0123456789")

    def guarded(self) -> MasterEnd:
        """A master's end that lets in who shows L{WORD}."""
        return MasterEnd(self.log, 0.0, admits=WORD.__eq__)

    def test_every_cut(self) -> None:
        """However ticket and reports are cut, nothing is sent before the ticket is whole, and then all of it."""
        stream = ticket() + report(4) + report(4)
        for cut in range(1, len(stream)):
            end = self.guarded()
            told = end.receive(stream[:cut], 0.0)
            self.assertEqual((end.admitted, told), (cut >= 32, cut >= 40), cut)
            self.assertEqual(end.send(99, 0.0) != b"", cut >= 40, cut)
            self.assertEqual(end.receive(stream[cut:], 0.0), True)
            self.assertEqual((end.admitted, end.confirmed), (True, 4))

    def test_bytewise(self) -> None:
        """It may come byte by byte."""
        end = self.guarded()
        for byte in ticket() + report(4):
            end.receive(bytes([byte]), 0.0)
        self.assertEqual(end.send(99, 0.0)[12:], b"456789")

    def test_refused(self) -> None:
        """Who begins with a report is a RocketMQ slave, and told apart from one with a bad ticket by the first byte."""
        for beginning in (report(0), report(5)[:1], report((1 << 63) - 1)):
            error = self.assertRaises(FramingError, self.guarded().receive, beginning, 0.0)
            self.assertIn("shows no ticket (RocketMQ slaves never do)", str(error))
        for bad in (ticket(b"x" * 24), report_struct.pack(-1) + WORD, ticket()[:8] + bytes(24)):
            end = self.guarded()
            error = self.assertRaises(FramingError, end.receive, bad + report(0), 0.0)
            self.assertIn("not ours, is used up, or is too old", str(error))
            self.assertEqual((end.admitted, end.send(99, 0.0), end.heartbeat(99.0)), (False, b"", b""))

    def test_slave(self) -> None:
        """A slave that was given a ticket shows it once, before its first report; others begin as RocketMQ's do."""
        end = SlaveEnd(self.log, 0.0, ticket=WORD)
        self.assertEqual(end.begin(0.0), ticket() + report(10))
        self.assertEqual(end.check(6.0), report(10))
        self.assertEqual(SlaveEnd(self.log, 0.0).begin(0.0), report(10))


class DoorTests(MasterCase):
    """The port for slaves of a master that has a key."""

    def make(self) -> Master:
        """Start one that lets in who shows L{WORD}."""
        return self.make_master(admits=WORD.__eq__)

    def test_let_in(self) -> None:
        """Who shows its ticket gets the log, and counts from then on."""
        master = self.make()
        slave = self.wire(master)
        self.assertEqual(master.slaves(), [])
        slave.link.dataReceived(ticket())
        self.assertEqual((slave.take(), len(master.slaves())), (b"", 1))
        slave.say(400)
        self.assertEqual(b"".join(body for _, body in pieces(slave.take())), self.there.data[400:])
        self.assertEqual(master.confirmed, 400)

    def test_turned_away(self) -> None:
        """Who does not is named with the reason, sent nothing, no longer heard, and held for 5 s."""
        reasons = ("it shows no ticket (RocketMQ slaves never do)", "it shows a ticket that is not ours")
        for number, said in enumerate((report(400), ticket(bytes(24)))):
            master = self.make_master(admits=WORD.__eq__)
            slave = self.wire(master, address=IPv4Address("TCP", f"10.1.2.{number}", 5000))
            slave.link.dataReceived(said)
            self.assertTrue(
                self.said.sentences[-1].startswith(f"not replicating to 10.1.2.{number}:5000: {reasons[number]}")
            )
            slave.link.dataReceived(ticket() + report(400))
            self.there.append(b"new")
            self.assertEqual((master.slaves(), master.turned_away, slave.cut), ([], 1, False))
            self.clock.advance(5)
            self.assertEqual((slave.take(), slave.cut), (b"", True))
            slave.gone()
            self.stop(master)
            self._services.remove(master)

    def test_silent(self) -> None:
        """Who shows nothing for 20 s is turned away; who leaves by itself is no news."""
        master = self.make()
        self.wire(master)
        with capturedLogs() as events:
            self.wire(master).gone()
        self.assertEqual(events, [])
        self.settle(20)
        self.assertEqual(self.said.sentences, ["not replicating to 10.1.2.3:5000: it has said nothing for 20 s"])
        self.assertEqual(master.turned_away, 1)

    def test_crowd(self) -> None:
        """Those who show no ticket keep nobody out: the first of them goes when there are too many, at once then."""
        master = self.make()
        slave = self.wire(master)
        slave.link.dataReceived(ticket() + report(400))
        crowd = [self.wire(master) for _ in range(600)]
        self.assertEqual([wired.cut for wired in crowd].count(True), 600 - 255 - 256)
        late = self.wire(master)
        late.link.dataReceived(ticket() + report(400))
        self.assertEqual((len(master.slaves()), slave.cut, late.cut), (2, False, False))

    def test_full(self) -> None:
        """Slaves that were let in make no room."""
        master = self.make()
        for _ in range(256):
            self.wire(master).link.dataReceived(ticket())
        self.assert_refused(master, IPv4Address("TCP", "10.0.0.2", 4000))

    def test_stops(self) -> None:
        """Those who wait in vain do not keep a master from stopping."""
        master = self.make()
        slave = self.wire(master, 400)
        stopping = master.stopService()
        self.assertTrue(slave.cut)
        slave.gone()
        self.successResultOf(stopping)


class PairTests(PairCase):
    """A slave of a master that has a key."""

    def test_follows(self) -> None:
        """It gets a ticket with the answer to its question, for each connection a new one."""
        guard = Guard(self.clock, self.env.random, KEY)
        self.tail.give = lambda: bytes.fromhex(guard.ticket())
        master = self.make_master(admits=guard.admits)
        slave = self.make_slave()
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data[800:]))
        self.settle(60)
        self.stop(master)
        self._services.remove(master)
        self.there.append(noise(3000))
        self.make_master(admits=guard.admits)
        self.settle(8)
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data[800:]))

    def test_refused(self) -> None:
        """Without a ticket it gets nothing, and says that the connection was lost."""
        master = self.make_master(admits=WORD.__eq__)
        slave = self.make_slave()
        self.settle(6)
        self.assertEqual((slave.state, self.here.data), (SlaveState.CONNECTING, b""))
        self.assertIn("the connection was lost", slave.reason)
        self.assertGreater(master.turned_away, 0)


class FlushedTests(SlaveCase):
    """A ticket is not for long."""

    def test_flushed_first(self) -> None:
        """A slave that confirms what is flushed asks for its ticket when that is all it has, however long it takes."""
        self.here.data[:] = self.there.data[:400]
        self.here.flushed = 100
        peers = self.listen()
        self.tail.give = lambda: WORD
        self.make_slave(ack_flushed=True)
        self.settle(60)
        self.assertEqual((self.tail.asked, peers), ([], []))
        self.here.flush()
        self.settle()
        self.assertEqual(peers[0].heard, ticket() + report(400))
