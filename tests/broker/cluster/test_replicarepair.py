"""A master whose log is damaged, and the slave that has the bytes (L{smartgo.broker.cluster.replicarepair})."""

from __future__ import annotations

import errno

from twisted.logger import capturedLogs

from smartgo.errors import BadRecord
from smartgo.ha.interfaces import SlaveState
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.ha import TailRequest
from smartgo.schema.record import HEAD_SIZE
from smartgo.store import pagereads, rawlog, verifiedlog
from tests.broker.cluster.test_replication import SLAVE, Pair, PairCase
from tests.broker.fakecluster import pull_command, records

_KEY = {"haAccessKey": "slaves-of-a", "haSecretKey": "a-secret-of-ours"}


class RepairTests(PairCase):
    """A master with eight messages, and its slave."""

    def sent(self, pair: Pair) -> list[int]:
        """Send messages, and return where the master's records begin."""
        for number in range(8):
            pair.send("T", b"%d" % number * 20)
        pair.pump(4.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
        return [one.commitlog_offset for one in pair.broker.store.units("T", 0, 0, 8)]

    def damage(self, pair: Pair, *places: int) -> None:
        """Flip a bit of some records of the master, and let the scrub find that."""
        data = pair.env.files.files[f"/store/commitlog/{0:020d}"].data
        for place in places:
            data[place + HEAD_SIZE] ^= 1
        self.successResultOf(pair.broker.store.flush())
        pair.broker.store.scrub.start()
        pair.pump(2.0)

    def test_repaired(self) -> None:
        """The damaged bytes are fetched from the slave within seconds; the log says so once a region."""
        for slave, master in (({}, {}), (_KEY, _KEY)):
            pair = self.start(slave, **master)
            offsets = self.sent(pair)
            with capturedLogs() as logs:
                self.damage(pair, offsets[2], offsets[6])
                pair.pump(6.0)
            damage = pair.broker.store.damage
            self.assertEqual((damage.found, damage.repaired, len(damage)), (2, 2, 0))
            self.assertEqual(*pair.logs())
            self.assertEqual(len(pair.pull("T")[1]), 8)
            said = [one["source"] for one in logs if "was put right" in one["log_format"]]
            self.assertEqual(said, [f" with the bytes of {SLAVE}"] * 2)

    def test_alone(self) -> None:
        """Without a slave the damage stays, and a slave that comes back puts it right."""
        pair = self.start()
        offsets = self.sent(pair)
        pair.stop_slave()
        self.damage(pair, offsets[2])
        pair.pump(20.0)
        self.assertEqual(len(pair.broker.store.damage), 1)
        pair.start_slave()
        pair.pump(8.0)
        self.assertEqual(len(pair.broker.store.damage), 0)

    def test_trust(self) -> None:
        """A slave gives its bytes to the master that it follows alone, and without a key of its own, not with one."""
        pair = self.start(_KEY, **_KEY)
        self.sent(pair)
        ask = Command.request(RequestCode.GET_LOG_TAIL, TailRequest(begin=0, end=8, read=True))
        answer = pair.ask(ask, SLAVE)
        self.assertEqual((answer.code, answer.body or b""), (ResponseCode.NO_PERMISSION, b""))
        pair = self.start()
        self.sent(pair)
        self.assertEqual(pair.ask(ask, SLAVE).body, pair.logs()[1][:8])
        pair.stop_master()
        pair.pump(1.0)
        answer = pair.ask(ask, SLAVE)
        self.assertEqual((answer.code, answer.body or b""), (ResponseCode.NO_PERMISSION, b""))
        self.assertIn("not the master", answer.remark or "")


class DamagedMasterTests(PairCase):
    """A master whose log is damaged where a slave has yet to copy it."""

    def damaged(self, *numbers: int, head: bool = False) -> tuple[Pair, list[int]]:
        """Send ten messages to two queues while there is no slave, and damage some; return where all begin."""
        pair = self.start()
        pair.stop_slave()
        for name in [name for name in pair.env.files.files if name.startswith("/slave/")]:
            del pair.env.files.files[name]
        for number in range(10):
            pair.send("T", b"%d" % number * 20, number % 2)
        units = [pair.broker.store.units("T", queue_id, 0, 5) for queue_id in range(2)]
        offsets = [units[number % 2][number // 2].commitlog_offset for number in range(10)]
        data = pair.env.files.files[f"/store/commitlog/{0:020d}"].data
        for number in numbers:
            data[offsets[number] + (3 if head else HEAD_SIZE)] ^= 1
        return pair, offsets

    def bodies(self, pair: Pair) -> list[bytes]:
        """The bodies that the slave delivers."""
        found = []
        for queue_id in range(2):
            at = 0
            for _ in range(3):
                answer, messages = pair.ask(pull_command("T", queue_id, at), SLAVE), []
                messages = records(answer.body) if answer.code == 0 else []
                found += [bytes(one.body) for one in messages]
                at = max([at + 1, *(one.queue_offset + 1 for one in messages)])
        return sorted(found)

    def same_damage(self, pair: Pair, first: int) -> None:
        """Check that both logs have the same damage, which begins at a physical offset."""
        theirs, ours = (
            [(one.offset, one.end) for one in broker.store.damage.regions] for broker in (pair.broker, pair.followed)
        )
        self.assertEqual(ours, theirs)
        self.assertEqual(ours[0][0], first)

    def test_passed(self) -> None:
        """The slave copies damaged bytes as they are, delivers what follows, and lists the same damage."""
        for numbers, head in (((4,), False), ((4,), True), ((4, 5), False), ((3, 4, 5, 8), True)):
            pair, offsets = self.damaged(*numbers, head=head)
            pair.start_slave()
            pair.pump(20.0)
            self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
            self.assertEqual(*pair.logs())
            self.same_damage(pair, offsets[numbers[0]])
            whole = [b"%d" % number * 20 for number in range(10) if number not in numbers]
            self.assertEqual(self.bodies(pair), whole)
            first = pair.followed.store.damage.regions[0]
            kept = pair.env.files.files[f"/slave/quarantine/{first.saved}"]
            self.assertEqual(bytes(kept.data), pair.logs()[0][first.offset : first.end])
            pair.send("T", b"later", 0)
            pair.pump(1.0)
            self.assertEqual(self.bodies(pair), [*whole, b"later"])
            pair.stop_slave()
            pair.start_slave()
            pair.pump(3.0)
            self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
            self.assertEqual(self.bodies(pair), [*whole, b"later"])

    def test_only_record(self) -> None:
        """A queue whose next record follows damage goes on with that record alone, at its own offset."""
        pair, _ = self.damaged(6)
        pair.start_slave()
        pair.pump(10.0)
        self.assertEqual(pair.followed.store.bounds("T", 0), (0, 5))

    def unreadable(self, *numbers: int) -> tuple[Pair, list[int]]:
        """The same, where the disk of the master cannot read the records, and nothing of the log is in memory."""
        for module in (pagereads, verifiedlog, rawlog):
            self.patch(module, "PAGE", 16)
        pair, offsets = self.damaged()
        store = pair.broker.store
        store._raw_log._reader._memory = 0
        read_at = pair.env.files.read_at
        self.bad = [offsets[number] + HEAD_SIZE for number in numbers]

        def failing(path: str, at: int, size: int) -> bytes:
            if path == f"/store/commitlog/{0:020d}" and any(
                at <= bad and bad - bad % 16 < at + size for bad in self.bad
            ):
                raise OSError(errno.EIO, "Input/output error", path)
            return read_at(path, at, size)

        self.patch(pair.env.files, "read_at", failing)
        return pair, offsets

    def test_unreadable(self) -> None:
        """
        What the disk of a master cannot read is damage of both logs after a minute: sends go on all the time, the
        slave goes on behind it, and when the disk reads again, what the slave lacks is fetched.
        """
        for numbers in ((4,), (0,), (9,), (3, 4, 8)):
            pair, offsets = self.unreadable(*numbers)
            pair.start_slave()
            pair.pump(30.0)
            now = pair.followed.replication.now()
            self.assertNotEqual(now.state, SlaveState.FOLLOWING)
            self.assertIn("the disk of 127.0.0.1:10911 cannot read its log at", now.reason)
            pair.send("T", b"meanwhile", 0)
            pair.pump(200.0)
            self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
            self.same_damage(pair, offsets[numbers[0]])
            whole = [b"%d" % number * 20 for number in range(10) if number not in numbers]
            self.assertEqual(self.bodies(pair), [*whole, b"meanwhile"])
            pair.stop_slave()
            pair.start_slave()
            pair.send("T", b"then", 0)
            pair.pump(10.0)
            self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
            self.assertEqual(self.bodies(pair), [*whole, b"meanwhile", b"then"])
            self.bad.clear()
            pair.stop_slave()
            pair.stop_master()
            pair.start_master()
            pair.start_slave()
            pair.pump(20.0)
            self.assertEqual((len(pair.broker.store.damage), len(pair.followed.store.damage)), (0, 0))
            self.assertEqual(*pair.logs())
            self.assertEqual(len(self.bodies(pair)), 12)

    def test_unreadable_tail(self) -> None:
        """
        A record whose end alone cannot be read, where it has properties without a CRC, is not delivered; a slave that
        has a part of it begins anew where the record does.
        """
        pair, offsets = self.unreadable(4)
        self.bad[:] = [offsets[5] - 1]
        pair.start_slave()
        pair.pump(5.0)
        end = pair.followed.store.log_bounds()[1]
        self.assertTrue(offsets[4] < end < offsets[5])
        pair.pump(200.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
        self.assertEqual([one.offset for one in pair.followed.store.damage.regions], [offsets[4]])
        self.assertEqual([one.offset for one in pair.broker.store.damage.regions], [offsets[4]])
        self.assertEqual(self.bodies(pair), [b"%d" % number * 20 for number in range(10) if number != 4])

    def test_unreadable_copied(self) -> None:
        """What the slave had copied before the master's disk could not read it any more, it keeps and delivers."""
        pair, _ = self.unreadable(4)
        bad, self.bad[:] = self.bad[:], []
        pair.start_slave()
        pair.pump(5.0)
        pair.stop_slave()
        self.bad[:] = bad
        pair.send("T", b"later", 0)
        pair.start_slave()
        pair.pump(200.0)
        self.assertEqual(pair.followed.replication.now().state, SlaveState.FOLLOWING)
        self.assertEqual((len(pair.followed.store.damage), len(self.bodies(pair))), (0, 11))

    def test_not_damaged_there(self) -> None:
        """Bytes that are wrong here and right in the master's log are asked for again."""
        pair = self.start()
        pair.send("T", b"1" * 20)
        pair.pump(1.0)
        slave = pair.followed.store
        end = slave.log_bounds()[1]
        self.assertRaises(BadRecord, slave.append_raw, end, b"\xff" * 200)
        self.assertEqual(slave.log_bounds()[1], end)
        pair.send("T", b"2" * 20)
        pair.pump(3.0)
        self.assertEqual(*pair.logs())
        self.assertEqual(len(slave.damage), 0)
