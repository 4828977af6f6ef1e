"""A master whose log is damaged, and the slave that has the bytes (L{smartgo.broker.cluster.replicarepair})."""

from __future__ import annotations

from twisted.logger import capturedLogs

from smartgo.ha.interfaces import SlaveState
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.ha import TailRequest
from smartgo.schema.record import HEAD_SIZE
from tests.broker.cluster.test_replication import SLAVE, Pair, PairCase

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
