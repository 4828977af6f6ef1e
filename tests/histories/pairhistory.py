"""
Histories of a master and its slave: all that befalls a broker, and slaves that join, are emptied, die or are promoted.

The two brokers talk over wires that can be cut and that carry bytes in pieces of any size. When all is quiet the slave
must have what the master has: the log byte by byte, every queue, and what clients read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.broker.broker import Broker
from smartgo.broker.openbroker import OpenBroker
from smartgo.ha.interfaces import SlaveState
from smartgo.schema.consumequeue import Unit
from smartgo.schema.refusalkind import RefusalKind
from tests.histories.brokerhistory import ENDLESS, BrokerHistory
from tests.histories.brokermodel import Sent, State
from tests.histories.caller import Caller
from tests.histories.history import Violation
from tests.histories.world import Machine

SLAVE_PORT: Final = 10921

_JOINED: Final = 120.0  # seconds within which a slave follows: it waits up to 60 s between two looks at another log
_COPIED: Final = 25.0  # seconds within which tables are copied


class PairHistory(BrokerHistory):
    """
    A master and a slave.

    A message counts as confirmed when a SYNC_MASTER answered it with code 0: a slave that is promoted must have it. An
    operator who empties the slave gives that up, as does a power cut of a slave that confirms what it has appended.
    """

    name = "pair"
    lengths = (15, 40, 80)

    def begin(self) -> None:
        """Draw a profile, and start both."""
        super().begin()
        chance = self.chance
        self.sync_master = chance.random() < 0.6
        self.ack_flush = chance.random() < 0.4
        self.faults = self.faults and chance.random() < 0.3
        self.flags["brokerRole"] = "SYNC_MASTER" if self.sync_master else "ASYNC_MASTER"
        self.slave_flags = {
            **self.flags,
            "brokerRole": "SLAVE",
            "brokerId": "1",
            "listenPort": str(SLAVE_PORT),
            "haMasterAddress": "127.0.0.1:10912",
            "masterAddress": "127.0.0.1:10911",
            "haAckMode": "flush" if self.ack_flush else "append",
        }
        self.may_differ = False  # the master may have lost what the slave has
        self.deleted: set[str] = set()  # topics that the slave may have though they were deleted
        self.note("pair", self.flags["brokerRole"], self.ack_flush)
        self.service = self._replaced()
        self.other: Machine = self.world.machine()
        self.slave_service: Broker | None = None
        self.reader = Caller(self.world, SLAVE_PORT)
        if chance.random() < 0.7:
            self.join()

    def _replaced(self) -> Broker:
        """Start the master anew in its role."""
        self.machine.end(power=False)
        return self.start(self.machine, self.flags)

    def chosen(self) -> Callable[[], None]:
        """Draw what to do."""
        draw = self.chance.random()
        for limit, choice in (
            (0.03, self.cut_wires),
            (0.10, self.crash_slave),
            (0.12, self.stop_slave),
            (0.135, self.empty_slave),
            (0.155, self.promote),
        ):
            if draw < limit:
                return choice
        return super().chosen()

    def acknowledged(self, one: Sent) -> None:
        """A send was answered with code 0."""
        super().acknowledged(one)
        if self.sync_master:
            one.confirmed = True

    def delete(self) -> None:
        """Delete a topic: the slave hears of it later."""
        super().delete()
        self.deleted.update(topic for topic in self.topics if not self.queues.get(topic))

    # -- the slave -------------------------------------------------------------------------------------------------

    @property
    def slave(self) -> OpenBroker | None:
        """The slave, whose store is open; C{None} where there is none."""
        return None if self.slave_service is None else self.slave_service.opened

    def join(self) -> None:
        """Start the slave."""
        arrivals, recovered = self.arrivals, self.recovered
        self.slave_service = self.start(self.other, self.slave_flags)
        self.arrivals, self.recovered = arrivals, recovered
        refusal = self.broker.store.refusal
        self.stuck = refusal is not None and refusal.kind is RefusalKind.FAILED  # the master's, perhaps meanwhile

    def _store_failed(self, reason: str) -> None:
        refusal = self.broker.store.refusal
        if refusal is not None and reason in refusal.words:
            super()._store_failed(reason)

    def cut_wires(self) -> None:
        """Break the connections between the two."""
        self.note("cut", self.world.wires.cut())

    def crash_slave(self) -> None:
        """Kill the slave, or cut its power, and start it again."""
        if self.slave is None:
            self.join()
            return
        power = self.chance.random() < 0.5
        before = self.slave.store.log_bounds()
        self.note("slave", "power cut" if power else "killed", before, self.slave.replication.now().state)
        self.other.end(power)
        self.join()
        self._check_slave(before[0], lost=power and not self.ack_flush)

    def stop_slave(self) -> None:
        """Stop the slave in order, and start it again."""
        if self.slave is not None:
            before = self.slave.store.log_bounds()[0]
            self._end_slave()
            self.other.end(power=False)
            self.join()
            self._check_slave(before, lost=False)

    def _end_slave(self) -> None:
        assert self.slave is not None
        self.note("slave stopped", self.slave.store.log_bounds())
        found: list[object] = []
        assert self.slave_service is not None
        self.slave_service.stopService().addBoth(found.append)
        for _ in range(30):
            if found:
                break
            self.world.run(1.0)
        if found != [None]:
            raise Violation("stop", f"the slave: {found}")

    def _check_slave(self, first: int, lost: bool) -> None:
        """
        See whether the slave has what it had confirmed, after it was started again.

        @param lost: it may have lost what it had not flushed.
        """
        assert self.slave is not None
        end = self.slave.store.log_bounds()[1]
        for one in self.model.everything():
            if one.confirmed and one.state is State.OWED and one.physical >= end:
                if not lost:
                    raise Violation("lost", f"the slave ends at {end}, and had confirmed {one.number}, {one.physical}")
                one.confirmed = False

    def empty_slave(self) -> None:
        """Let the slave begin anew on an empty disk."""
        if self.slave is not None:
            self.other.end(power=False)
        self.note("slave emptied")
        self.other.empty()
        for one in self.model.everything():
            one.confirmed = False
        self.may_differ = False
        self.join()

    def promote(self) -> None:
        """The master's machine is lost: the slave becomes the master, and an empty machine its slave."""
        if self.slave is None or self.slave.replication.now().state is SlaveState.DIVERGED:
            return
        first, end = self.slave.store.log_bounds()
        if end == 0:
            return
        power = self.ack_flush and self.chance.random() < 0.5
        self.note("promoted", first, end, "after a power cut" if power else "")
        self.machine.end(power=False)
        self.machine.empty()
        if not power and self.chance.random() < 0.5:
            self._end_slave()
        self.other.end(power)
        self.machine, self.other = self.other, self.machine
        self.recovered = ENDLESS
        self.slave_service = None
        self.model.required = 0
        self.service = self.start(self.machine, self.flags)
        self.model.promoted(self.broker.store.log_bounds()[0], self.recovered, self.deleted)
        self.waiting.clear()
        self._uncommit()
        for topic in self.topics:
            self.queues[topic] = self._size_of(topic)
            self.model.forgotten(topic, self.queues[topic])
        self.look(quiet=False)
        self.decide()
        for one in self.model.everything():
            one.confirmed = False
        self.may_differ = False
        if self.chance.random() < 0.7:
            self.join()

    # -- the master ------------------------------------------------------------------------------------------------

    def _restarted(self, power: bool) -> None:
        super()._restarted(power)
        self.may_differ = self.may_differ or power

    # -- looking ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until the slave has everything, and compare."""
        super().settle()
        if self.slave is None:
            self.join()
        self.world.lazy = False
        self.other.disk.mend()
        for _ in range(int(_JOINED)):
            if self._follows():
                break
            self.world.run(1.0)
        else:
            assert self.slave is not None
            now = self.slave.replication.now()
            bounds = self.broker.store.log_bounds(), self.slave.store.log_bounds()
            if not (now.state is SlaveState.DIVERGED and self.may_differ):
                raise Violation("replica differs", f"{now.state}, {now.reason}: {bounds}")
            self.note("diverged")
            self.empty_slave()
            self.settle()
            return
        self.world.run(_COPIED)
        assert self.slave is not None
        for _ in range(int(_COPIED)):
            if not self.slave.replication.now().tables_reason:
                break
            self.world.run(1.0)  # the connection was cut, and what the slave made up for it goes with the next copy
        if self._follows():
            self._compare()
        self.world.lazy = self.lazy

    def _follows(self) -> bool:
        assert self.slave is not None
        there = self.slave.replication.now().state is SlaveState.FOLLOWING
        return there and self.slave.store.log_bounds()[1] == self.end

    def _compare(self) -> None:
        """Compare the two. @raise Violation: they differ."""
        assert self.slave is not None
        first = max(self.broker.store.log_bounds()[0], self.slave.store.log_bounds()[0])
        if self._log_of(self.broker, first) != self._log_of(self.slave, first):
            raise Violation("replica differs", f"the logs from {first} to {self.end}")
        ours, theirs = self.broker.topics.wrapper(), self.slave.topics.wrapper()
        if ours.topic_config_table != theirs.topic_config_table:
            raise Violation("replica differs", f"the topics: {ours} and {theirs}")
        for key in sorted(set(self.broker.store.queues()) | set(self.slave.store.queues())):
            here, there = _units(self.broker, key, first), _units(self.slave, key, first)
            if here != there:
                raise Violation("replica differs", f"{key}: {here} and {there}")
        for one in self.model.everything():
            if one.state is State.OWED and one.physical >= first and (one.offset >= 0 or one.delay):
                one.confirmed = True
        self.note("alike", first, self.end)

    def _log_of(self, broker: OpenBroker, begin: int) -> bytes:
        """Return the log of a broker from a physical offset on."""
        at, end = begin, broker.store.log_bounds()[1]
        parts: list[bytes] = []
        while at < end:
            broker.store.piece_cold(at, 1 << 20).addCallback(parts.append)
            self.world.run()
            at += len(parts[-1])
        return b"".join(parts)


def _units(broker: OpenBroker, key: tuple[str, int], begin: int) -> list[Unit]:
    """Return the units of a queue that lead into the log from C{begin} on."""
    low, high = broker.store.bounds(*key)
    return [one for one in broker.store.units(*key, low, high - low) if one.commitlog_offset >= begin]
