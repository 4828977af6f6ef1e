"""
The faults of a simulation: a numbered list, drawn before it begins, and what carries them out and ends them.

A fault draws all that it decides later from a stream of its own: one that is left out changes nothing for the others.
Faults of one machine do not overlap, those of the network may.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from twisted.internet.defer import Deferred

from smartgo.ha.interfaces import SlaveState
from tests.chaos.history import Crash, Jump, Ok, Read, Recorder, Stuck, broker_of
from tests.chaos.history import Fault as FaultEvent
from tests.sim.cluster import BrokerNode, Cluster, Node
from tests.sim.disk import Disk
from tests.sim.kernel import Life
from tests.sim.machine import Machine
from tests.sim.profile import Profile
from tests.sim.seeds import Streams

T = TypeVar("T")

WINDOW: Final = 1.0
"""Seconds before a power cut whose acknowledged messages ASYNC_FLUSH may lose."""

_FOREVER: Final = 1e9  # seconds
_STOPPED: Final = 60.0  # seconds in which a process must stop in order
_BEGIN: Final = 5.0  # seconds that the cluster has to start before the first fault
_OPERATOR: Final = 15.0  # seconds between two looks of the operator
_SOON: Final = 3.0  # the same once the faults are over, for C{_LOOKS} looks
_LOOKS: Final = 12
_POLL: Final = 0.002  # seconds between two looks at what clients were told
_NETWORK: Final = frozenset({"partition", "one-way", "cut", "half-open", "stall"})
_BROKERS: Final = frozenset(
    {
        "power-pair",
        "lost-machine",
        "storm",
        "failing-sync",
        "failing-disk",
        "full-disk",
        "crash-in-write",
        "slow-disk",
        "clock",
    }
)
_STEPS: Final = (-86_400_000, -3_600_000, -5_000, -500, 500, 5_000, 3_600_000)  # milliseconds; of wall clocks
_LONGEST: Final = {"pause": 40.0, "stall": 20.0, "full-disk": 40.0, "kill": 20.0, "stop": 10.0}  # 30 by default


@dataclass(frozen=True)
class Fault:
    """
    One fault.

    @ivar number: by which it can be left out.
    @ivar time: virtual seconds at which it begins.
    @ivar kind: one of L{tests.sim.profile.KINDS}.
    @ivar target: the machine; of a partition both, with a comma.
    @ivar seconds: how long it lasts.
    """

    number: int
    time: float
    kind: str
    target: str
    seconds: float

    def __str__(self) -> str:
        """Return it in one line."""
        return f"{self.number}: {self.kind} of {self.target} at {self.time:.1f} s for {self.seconds:.1f} s"


def plan(profile: Profile, streams: Streams, nodes: list[str], seconds: float) -> list[Fault]:
    """
    Draw the faults of a run.

    @param nodes: the names of the servers.
    @param seconds: how long the phase of faults lasts.
    """
    if not profile.kinds:
        return []
    chance = streams.of("nemesis")
    kinds = (*profile.kinds, *("storm",) * ("storm" in profile.kinds))
    free = dict.fromkeys(nodes, 0.0)
    faults: list[Fault] = []
    time = _BEGIN
    while True:
        time += chance.expovariate(1 / profile.interval)
        kind = chance.choice(kinds)
        targets = [one for one in nodes if kind not in _BROKERS or one.startswith("broker")]
        if kind == "storm":  # of masters mostly
            targets += [one for one in targets if one.endswith("-0")] * 2
        target = chance.choice(targets)
        other = chance.choice([one for one in nodes if one != target])
        lasts = chance.uniform(0.2, _LONGEST.get(kind, 30.0))
        if time >= seconds:
            return faults
        lasts = min(lasts, seconds - time)
        if kind in _NETWORK:
            target = f"{target},{other}"
        elif time < free[target]:
            continue
        else:
            free[target] = time + lasts + 1.0
        faults.append(Fault(len(faults), time, kind, target, lasts))


class Nemesis:
    """
    Carries the faults of a run out.

    @ivar faults: all that were planned.
    @ivar happened: how often each kind was seen to happen.
    """

    def __init__(
        self,
        cluster: Cluster,
        faults: list[Fault],
        recorder: Recorder,
        storm: Callable[[int, float], object] = lambda sends, seconds: None,
    ) -> None:
        """
        @param recorder: takes the events that the checker must know, and has those of the clients.
        @param storm: lets every producer send so often within so many seconds.
        """
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.faults = faults
        self.happened: dict[str, int] = {}
        self._recorder = recorder
        self._record = recorder.add
        self._let_storm = storm
        self._nodes = {node.name: node for node in cluster.nodes}
        self._lossy: set[str] = set()  # brokers whose masters have lost what they had not flushed, and slaves may have
        self._cuts: dict[str, Crash] = {}  # by broker: power cuts of SYNC_MASTERs whose slaves followed, not told yet
        self._given: dict[str, Crash] = {}  # by broker: excuses what a slave gave that its master had not flushed
        self._pauses: dict[str, tuple[Life, float, float]] = {}  # by node: whose process last stood still, and when
        self._over = False
        self._looks = _LOOKS
        self._ending: dict[int, tuple[float, Callable[[], int]]] = {}  # by number: when it began, what ends it
        for node in cluster.nodes:
            node.when_lost = self._died

    def start(self, without: Collection[int] = ()) -> None:
        """Schedule all faults but those with these numbers, and the operator."""
        for fault in self.faults:
            if fault.number not in without:
                self.kernel.later(fault.time - self.kernel.now, self._begin, fault)
        self.kernel.later(_OPERATOR, self._operate)

    def stop(self) -> None:
        """End all faults: start what is down, mend what is broken."""
        self._over = True
        self.cluster.world.rare_paths.on = False
        for fault in self.faults:
            self._end(fault)
        world = self.cluster.world
        world.network.heal()
        for machine in world.machines:
            machine.usual()
            machine.disk.mend()
        for node in self.cluster.nodes:
            self._restart(node)
        self._operate()

    # -- parts -------------------------------------------------------------------------------------------------

    def _begin(self, fault: Fault) -> None:
        if self._over:
            return
        chance = self.cluster.streams.of(f"fault {fault.number}")
        carry = getattr(self, "_" + fault.kind.replace("-", "_"))
        end = carry(fault, chance)
        if end is None:
            self.kernel.trace("no fault", fault)
            return
        self.kernel.trace("fault", fault)
        self._ending[fault.number] = self.kernel.now, end
        self.kernel.later(fault.seconds, self._end, fault)

    def _end(self, fault: Fault) -> None:
        """End a fault; what it did is a fault of the run, one that hit nothing is none."""
        if fault.number not in self._ending:
            return
        begun, end = self._ending.pop(fault.number)
        count = end()
        self.kernel.trace("over", fault.number, count)
        if count:
            self.happened[fault.kind] = self.happened.get(fault.kind, 0) + 1
            name = f"{fault.kind} {fault.number}"
            self._record(FaultEvent(t=begun, name=name, target=fault.target, on=True))
            self._record(FaultEvent(name=name, target=fault.target, on=False, count=count))

    def _died(self, node: Node, window: float, cause: str) -> None:
        """Tell the checker what the death of a master may have taken."""
        if not isinstance(node, BrokerNode):
            return
        if window:
            self._settle_cut(node.broker, kept=False)
        if not node.is_master:
            return
        flushes = node.profile.sync_flush
        crash = Crash(
            t=self._recorder.now,
            broker=node.broker,
            window=60.0 if window and flushes else window,
            flushes=flushes,
            cause=cause,
        )
        if window:
            self._lossy.add(node.broker)
            self._given[node.broker] = msgspec.structs.replace(crash, window=window, flushes=False, replicates=True)
        if window and not flushes and self._may_lose(node, self._pair(node.broker)[1]):
            self._cuts[node.broker] = crash
        else:
            self._record(crash)

    def _settle_cut(self, broker: str, kept: bool) -> None:
        """
        Tell the checker of a power cut that a SYNC_MASTER had while its slave followed.

        @param kept: the slave has kept what was acknowledged.
        """
        crash = self._cuts.pop(broker, None)
        if crash is not None:
            self._record(msgspec.structs.replace(crash, replicates=kept))

    def _operate(self) -> None:
        """
        Do what an operator does about a slave that has what its master lost: empty it, or put its log in the place of
        the master's where the slave has all that was acknowledged.
        """
        for node in self.cluster.brokers.values():
            opened = node.opened
            if node.is_master or opened is None or node.held:
                continue
            state = opened.replication.now()
            if state.state is SlaveState.FOLLOWING and not state.behind and self._confirmed(node):
                self._lossy.discard(node.broker)  # it has taken over what its master lost
                self._settle_cut(node.broker, kept=True)
            if state.state is SlaveState.DIVERGED:
                self.kernel.trace("diverged", node.name, state.reason)
                if node.broker not in self._lossy:
                    self._record(Stuck(text=f"{node.name} has diverged, and its master lost nothing: {state.reason}"))
                if node.broker in self._cuts and self._promote(node):
                    continue
                self._settle_cut(node.broker, kept=False)
                if node.profile.sync_flush and node.broker in self._given:
                    self._record(self._given.pop(node.broker))
                node.kill()
                node.empty()
                node.start()
        if not self._over:
            self.kernel.later(_OPERATOR, self._operate)
        elif self._looks:
            self._looks -= 1
            self.kernel.later(_SOON, self._operate)
        else:
            for broker in list(self._cuts):
                self._settle_cut(broker, kept=False)

    def _promote(self, slave: BrokerNode) -> bool:
        """Put the log of a slave in the place of its master's; return whether that was done."""
        master, _ = self._pair(slave.broker)
        if master.held or not self._same_topics(master, slave):
            return False
        since = self._cuts[slave.broker].t
        self._settle_cut(slave.broker, kept=True)
        for node in (master, slave):
            node.kill()
        self._replace(master, slave, self._recorder.now - since, "the operator takes the slave's log")
        for node in (master, slave):
            node.start()
        return True

    def _confirmed(self, slave: BrokerNode) -> bool:
        """Return whether the master that runs now knows that its slave has all of its log."""
        master, _ = self._pair(slave.broker)
        opened = master.opened
        if opened is None or master.held:
            return False
        end = opened.store.log_bounds()[1]
        return any(seen.confirmed == end for seen in opened.replication.now().slaves)

    # -- processes ---------------------------------------------------------------------------------------------

    def _restart(self, node: Node) -> None:
        node.held = False
        if not node.alive:
            node.start()

    def _after_death(self, *nodes: Node) -> Callable[[], int]:
        """Return what starts processes again that were killed now, and returns how many were."""
        dead = sum(not node.alive for node in nodes)

        def again() -> int:
            for node in nodes:
                self._restart(node)
            return dead

        return again

    def _window(self, node: Node) -> float:
        """
        Return the seconds before a power cut of a machine, now, whose acknowledged messages it may lose.

        A flush that is under way, and the one after it, may take long. Nothing was flushed since a sync failed that
        the store needed (reliability D4), or while the process stood still.
        """
        now = self.kernel.now
        window = WINDOW + 2 * node.machine.longest_call
        life, pause, resumed = self._pauses.get(node.name, (None, 0.0, 0.0))
        stood_still = min(resumed, now) - pause if life is node.machine.life and now - resumed < window else 0.0
        failed = [node.machine.disk.dropped_at, node.failed_at if isinstance(node, BrokerNode) else None]
        return window + max([stood_still, *(now - one for one in failed if one is not None)])

    def _kill(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Kill a process."""
        node = self._nodes[fault.target]
        if not node.alive:
            return None
        node.held = True
        node.kill()
        return self._after_death(node)

    def _power(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Cut a machine's power."""
        node = self._nodes[fault.target]
        if not node.alive:
            return None
        node.held = True
        node.kill(power=True, window=self._window(node))
        return self._after_death(node)

    def _pair_of(self, fault: Fault) -> tuple[BrokerNode, BrokerNode]:
        """Return the master and the slave of the pair that a fault is aimed at."""
        return self._pair(fault.target.rpartition("-")[0])

    def _pair(self, broker: str) -> tuple[BrokerNode, BrokerNode]:
        """Return the master and the slave that have a broker's name."""
        pair = broker.partition("-")[2]
        return self.cluster.master(pair), self.cluster.slave(pair)

    def _power_pair(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Cut the power of both machines of a pair."""
        pair = self._pair_of(fault)
        if not all(node.alive for node in pair):
            return None
        for node in pair:
            node.held = True
            node.kill(power=True, window=self._window(node))
        return self._after_death(*pair)

    def _lost_machine(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """
        Lose a SYNC_MASTER's machine: a copy of its slave's disk takes the place of the disk.

        Before that its connections, or the slave's, may trickle for a while and the slave's disk be slow, or it has
        just acknowledged a send. Where slaves confirm what they have flushed, the slave's machine may lose its power
        at the same moment.
        """
        master, slave = self._pair_of(fault)
        if not self._may_lose(master, slave):
            return None
        network, here = self.cluster.world.network, chance.choice((master, slave)).machine.address
        slave.machine.slow_down(chance.choice((0.0, 0.05, 0.5)))
        trickles = fault.seconds * chance.choice((0.0, 0.5))
        waits = chance.random() < 0.7
        power = master.profile.ack_flush and chance.random() < 0.7
        over = False
        losses = 0

        def lose() -> None:
            nonlocal losses
            network.trickles.pop(here, None)
            if over or not self._may_lose(master, slave):
                return
            losses += 1
            for node in (master, slave):
                node.held = True
            slave.machine.usual()
            master.kill()
            slave.kill(power, WINDOW if power else 0.0)
            self._replace(master, slave, _FOREVER, "the machine is lost")
            self._restart(slave)

        def again() -> int:
            nonlocal over
            over = True
            network.trickles.pop(here, None)
            slave.machine.usual()
            self._restart(master)
            return losses

        if trickles:
            network.trickles[here] = chance.choice((20, 100, 500))
        if waits:
            until = self.kernel.now + fault.seconds
            self.kernel.later(trickles, self._when_seen, Ok, master.broker, until, lose)
        elif trickles:
            self.kernel.later(trickles, lose)
        else:
            lose()
        return again

    def _when_seen(
        self,
        kind: type[Ok] | type[Read],
        broker: str,
        until: float,
        then: Callable[[], object],
        count: int = 1,
        seen: int | None = None,
    ) -> None:
        """
        Call a function as soon as something more of a broker's was seen, if that is soon enough.

        @param kind: L{Ok}: acknowledgements, L{Read}: what a consumer was given.
        @param until: virtual time after which nothing is called.
        @param count: how many more of them there must be.
        @param seen: events that were looked at; C{None} for all there are.
        """
        events = self._recorder.events
        for one in events[len(events) if seen is None else seen :]:
            if isinstance(one, kind):
                count -= broker in (one.broker if isinstance(one, Ok) else "", broker_of(one.queue))
        if count <= 0:
            then()
        elif self.kernel.now < until:
            self.kernel.later(_POLL, self._when_seen, kind, broker, until, then, count, len(events))

    def _storm(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """
        Let all producers send much at once, and in the midst of it kill a process of a pair, or cut a machine's power.

        That is at some acknowledgement, at some delivery, between two operations on the disk, or at any moment, at the
        end of the storm at the latest. The disk may be slow, and the wall clock may be set meanwhile.
        """
        node = self._nodes[fault.target]
        assert isinstance(node, BrokerNode)
        if not all(one.alive for one in self._pair_of(fault)):
            return None
        machine, disk, life = node.machine, node.machine.disk, node.machine.life
        lasts = min(fault.seconds, chance.choice((0.2, 1.0, 3.0)))
        power = chance.random() < 0.7
        machine.slow_down(chance.choice((0.0, 0.1, 0.5, 1.0)))
        jumps = chance.choice((0, 0, 0, *_STEPS))
        deaths = 0

        def die(disk: Disk | None = None) -> None:
            nonlocal deaths
            if machine.life is life and not deaths:
                deaths += 1
                node.held = True
                node.kill(power, self._window(node) if power else 0.0, disk)

        def stopped() -> None:
            assert life is not None
            life.paused_until = _FOREVER
            self.kernel.later(0, lambda: die(disk.stopped))

        if jumps:
            self.kernel.later(chance.uniform(0, lasts), self._jump, machine, fault.target, jumps)
        self.kernel.later(lasts, die)
        moment = chance.choice(("acknowledged", "acknowledged", "delivered", "written", "any"))
        until = self.kernel.now + lasts
        if moment == "written":
            disk.stop_after = chance.randrange(1, 60)
            disk.when_stopped = stopped
        elif moment == "any":
            self.kernel.later(chance.uniform(0, lasts), die)
        else:
            kind = Ok if moment == "acknowledged" else Read
            self._when_seen(kind, node.broker, until, die, chance.randrange(1, 20))
        self._let_storm(chance.choice((2, 4, 8)), lasts)

        def again() -> int:
            nonlocal deaths
            disk.stop_after = 0
            machine.usual()
            self._restart(node)
            happened, deaths = deaths, 1
            return happened

        return again

    def _replace(self, master: BrokerNode, slave: BrokerNode, window: float, cause: str) -> None:
        """Put a copy of a slave's disk in the place of its SYNC_MASTER's; neither of them runs."""
        self._lossy.add(master.broker)
        self._record(Crash(broker=master.broker, window=window, replicates=True, cause=cause))
        master.machine.restore(slave.machine.disk)

    def _may_lose(self, master: BrokerNode, slave: BrokerNode) -> bool:
        """Return whether the slave of a SYNC_MASTER follows it, and has its topics."""
        here, there = master.opened, slave.opened
        if here is None or there is None or not slave.whole or not master.profile.sync_master:
            return False
        if master.machine.disk.sick or slave.machine.disk.sick:
            return False
        return slave.follows and self._same_topics(master, slave)

    def _same_topics(self, master: BrokerNode, slave: BrokerNode) -> bool:
        """Return whether both run, and a slave has the topics of its master: it would bring back deleted ones."""
        here, there = master.opened, slave.opened
        if here is None or there is None:
            return False
        mine, its = (one.topics.wrapper().topic_config_table for one in (here, there))
        return bool(mine == its)

    def _stop(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Stop a process in order."""
        node = self._nodes[fault.target]
        if not node.alive or not node.ready:
            return None
        node.held = True
        stopped: Deferred[None] = node.stop()
        life = node.machine.life

        def late() -> None:
            if life is not None and node.machine.life is life:
                self._record(Stuck(text=f"{node.name} does not stop within {_STOPPED:g} s"))

        self.kernel.later(_STOPPED, late)

        def again() -> int:
            done = stopped.called
            stopped.addBoth(lambda _: self._restart(node))
            return int(done)

        return again

    def _crash_in_write(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Kill a process, or cut its power, in the middle of what it does to its disk."""
        node = self._nodes[fault.target]
        if not node.alive:
            return None
        power = chance.random() < 0.5
        disk = node.machine.disk
        disk.stop_after = chance.randrange(1, 40)
        crashes = 0

        def crash() -> None:
            nonlocal crashes
            if node.machine.disk is disk and node.alive:
                crashes += 1
                node.held = True
                node.kill(power, self._window(node) if power else 0.0, disk.stopped)

        def stopped() -> None:
            assert life is not None
            life.paused_until = _FOREVER  # it does nothing more
            self.kernel.later(0, crash)

        life = node.machine.life
        disk.when_stopped = stopped

        def again() -> int:
            disk.stop_after = 0
            self._restart(node)
            return crashes

        return again

    def _pause(self, fault: Fault, chance: random.Random) -> Callable[[], int] | None:
        """Stop a process for some time, and let it go on, as C{SIGSTOP} and C{SIGCONT} do."""
        life = self._nodes[fault.target].machine.life
        if life is None:
            return None
        life.paused_until = self.kernel.now + fault.seconds
        self._pauses[fault.target] = life, self.kernel.now, life.paused_until
        return lambda: 1

    # -- the network -------------------------------------------------------------------------------------------

    def _address(self, name: str) -> str:
        return self._nodes[name].machine.address

    def _partition(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let nothing pass between two machines."""
        here, there = map(self._address, fault.target.split(","))
        return self._block([(here, there), (there, here)])

    def _one_way(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let nothing pass from one machine to another, but in the other direction."""
        here, there = map(self._address, fault.target.split(","))
        return self._block([(here, there)])

    def _isolate(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let nothing pass between a machine and all others."""
        here = self._address(fault.target)
        others = [machine.address for machine in self.cluster.world.machines if machine.address != here]
        return self._block([pair for there in others for pair in ((here, there), (there, here))])

    def _block(self, pairs: list[tuple[str, str]]) -> Callable[[], int]:
        network = self.cluster.world.network
        before = sum(network.held_back[pair] for pair in pairs)
        for pair in pairs:
            network.block(*pair)

        def unblock() -> int:
            held_back = sum(network.held_back[pair] for pair in pairs) - before
            for pair in pairs:
                network.unblock(*pair)
            return held_back

        return unblock

    def _cut(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Break some connections of a machine."""
        return self._break(fault, chance, one_sided=False)

    def _half_open(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Break some connections of a machine; only one end hears of it."""
        return self._break(fault, chance, one_sided=True)

    def _break(self, fault: Fault, chance: random.Random, one_sided: bool) -> Callable[[], int]:
        network = self.cluster.world.network
        here = self._address(fault.target.partition(",")[0])
        broken = 0
        for end in network.connections():
            if here in (end.getHost().host, end.getPeer().host) and chance.random() < 0.6:
                one = end if chance.random() < 0.5 else end.other
                network.cut(one, one_sided)
                broken += not one.connected
        return lambda: broken

    def _stall(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let what some connections of a machine carry, in one direction or both, wait."""
        here = self._address(fault.target.partition(",")[0])
        until = self.kernel.now + fault.seconds
        stalled = 0
        for end in self.cluster.world.network.connections():
            if here in (end.getHost().host, end.getPeer().host) and chance.random() < 0.5:
                for one in (end, end.other):
                    if chance.random() < 0.7:
                        one.stalled_until = until
                        stalled += 1
        return lambda: stalled

    def _slow_network(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let everything from and to a machine travel longer."""
        network = self.cluster.world.network
        return self._set_link(fault, network.delays, chance.choice((0.05, 0.3, 1.0)), network.delayed)

    def _trickle(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let what the connections of a machine carry arrive in small portions."""
        network = self.cluster.world.network
        return self._set_link(fault, network.trickles, chance.choice((100, 500, 2000)), network.delayed)

    def _breaking(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Break connections of a machine again and again, as something is to arrive, such as the answer to a send."""
        network = self.cluster.world.network
        return self._set_link(fault, network.breaks, chance.choice((0.02, 0.1, 0.3)), network.broken)

    def _set_link(self, fault: Fault, settings: dict[str, T], value: T, counts: Mapping[str, int]) -> Callable[[], int]:
        """
        Set a property of a machine's links until the fault ends.

        @param settings: that property by address.
        @param counts: how often it took effect, by address.
        """
        here = self._address(fault.target)
        settings[here] = value
        before = counts[here]

        def usual() -> int:
            settings.pop(here, None)
            return counts[here] - before

        return usual

    # -- disks and clocks --------------------------------------------------------------------------------------

    def _slow_disk(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let the work of a machine's threads take longer."""
        machine = self._nodes[fault.target].machine
        machine.slow_down(chance.choice((0.06, 0.4, 2.0)))
        before = machine.slowed

        def usual() -> int:
            machine.usual()
            return machine.slowed - before

        return usual

    def _failing_sync(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let syncs fail; what they did not write is lost when the machine is started anew, at the end of the fault."""
        return self._fail(fault, chance.choice((0.3, 1.0)), {"sync"})

    def _failing_disk(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Let operations of the disk fail, all or those of one kind."""
        kinds = chance.choice((None, {"replace"}, {"allocate", "create"}, {"map"}, {"sync_directory"}, {"remove"}))
        return self._fail(fault, chance.choice((0.05, 0.5)), kinds)

    def _fail(self, fault: Fault, rate: float, kinds: Collection[str] | None) -> Callable[[], int]:
        node = self._nodes[fault.target]
        disk = node.machine.disk
        disk.rate, disk.failing, disk.drops = rate, kinds, True
        before = disk.faults

        def mend() -> int:
            refused = node.machine.disk.faults - before
            node.machine.disk.mend()
            node.machine.disk.drops = False
            node.kill(power=True, window=self._window(node))
            node.start()
            return refused

        return mend

    def _full_disk(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Take the free space of a disk."""
        node = self._nodes[fault.target]
        disk = node.machine.disk
        free, disk.free = disk.free, chance.choice((0, 4000, 200_000))
        taken = free - disk.free
        before = disk.faults

        def empty() -> int:
            node.machine.disk.free += taken
            return node.machine.disk.faults - before

        return empty

    def _clock(self, fault: Fault, chance: random.Random) -> Callable[[], int]:
        """Set the wall clock of a machine."""
        self._jump(self._nodes[fault.target].machine, fault.target, chance.choice(_STEPS))
        return lambda: 1

    def _jump(self, machine: Machine, target: str, by_ms: int) -> None:
        machine.wall_offset_ms += by_ms
        self._record(Jump(target=target, by=by_ms / 1000))
