"""A simulated cluster: two registries and two pairs of master and slave, assembled as the product's processes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.broker.broker import Broker
from smartgo.broker.network import BrokerSecurity
from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.settings.storesettings import store_settings
from smartgo.config.loading import BROKER, REGISTRY, Configuration, Surroundings, load
from smartgo.env.interfaces import IEnvironment
from smartgo.ha.interfaces import SlaveState
from smartgo.node import broker as broker_node
from smartgo.node import registry as registry_node
from smartgo.node.assembly import NodeService
from smartgo.node.options import RegistryOptions, settled
from smartgo.node.process import Process, check_tables, process_sweeper, server_limits
from smartgo.node.registryserver import Registry
from tests.sim.disk import Disk
from tests.sim.kernel import Kernel
from tests.sim.machine import Machine, SimEnvironment, World
from tests.sim.profile import Profile
from tests.sim.seeds import Streams

Flags: TypeAlias = dict[str, str]

PAIRS: Final = ("a", "b")
ROOT: Final = "/store"

_AGAIN: Final = 3.0  # seconds after which the supervisor starts a process again that has ended
_LOOK: Final = 1.0  # seconds between two looks at the logs of brokers


class SimProcess:
    """The product's process, as far as services need it: hears of starts that fail and stores that fail for good."""

    def __init__(self, ended: Callable[[str], object]) -> None:
        """@param ended: is told that the process ends, and why."""
        self._ended = ended

    def watch(self, starting: Deferred[Any]) -> None:
        """End if this start fails."""
        starting.addErrback(self._fail)

    def _fail(self, failure: Failure) -> None:
        self._ended(f"cannot start: {failure.value!r}")

    def on_reload(self, reload: Callable[[], None]) -> None:
        """There are no signals."""

    def failed_store(self, reason: str) -> None:
        """End: the store failed for good."""
        self._ended(f"the store failed: {reason}")


class Node:
    """
    A server of the cluster, on a machine of its own.

    @ivar name: such as C{registry-0}, C{broker-a-0}: of brokers C{brokerName} and C{brokerId}.
    @ivar service: of the process that runs, or ran last; C{None} before the first start.
    @ivar alive: whether a process runs.
    @ivar starts: how often it was started.
    @ivar deaths: why a process ended of itself, in order.
    @ivar held: the supervisor is not to start it.
    @ivar when_lost: is called with the node, the seconds before now whose acknowledged messages may be gone, and a
        cause, when a process ends without a clean stop.
    """

    def __init__(self, machine: Machine, flags: Flags, profile: Profile) -> None:
        """@param flags: settings by their names in a file."""
        self.machine = machine
        self.name = machine.name
        self.flags = flags
        self.profile = profile
        self.service: NodeService | None = None
        self.server: Any = None
        self.starts = 0
        self.deaths: list[str] = []
        self.held = False
        self.when_lost: Callable[[Node, float, str], object] = lambda node, window, cause: None

    @property
    def alive(self) -> bool:
        """Tell whether a process runs."""
        return self.machine.life is not None

    @property
    def ready(self) -> bool:
        """Tell whether it serves."""
        raise NotImplementedError

    def start(self) -> None:
        """Start a process; see L{ready}."""
        self.starts += 1
        env = self.machine.begin()
        life = self.machine.life
        process = cast("Process", SimProcess(lambda why: self._ended(life, why)))
        self.server = None
        try:
            self.service, self.server = self.assemble(env, process)
        except Exception as error:
            self._ended(life, f"cannot start: {error!r}")
            return
        self.service.startService()

    def assemble(self, env: SimEnvironment, process: Process) -> tuple[NodeService, Any]:
        """Return the services of a process, and the server among them."""
        raise NotImplementedError

    def _ended(self, life: object, why: str) -> None:
        """End the process, and let the supervisor start it again."""
        if self.machine.life is not life or life is None:
            return
        kernel = self.machine.world.kernel
        kernel.trace("ends", self.name, why)
        self.deaths.append(why)
        kernel.later(0, self._crash, life)

    def _crash(self, life: object) -> None:
        if self.machine.life is life:
            self.kill()
            self.machine.world.kernel.later(_AGAIN, self._again)

    def _again(self) -> None:
        if not self.alive and not self.held:
            self.start()

    def kill(self, power: bool = False, window: float = 0.0, disk: Disk | None = None) -> None:
        """
        Kill the process, if one runs, or cut the machine's power.

        @param window: seconds; what was acknowledged so long ago or later may be gone.
        @param disk: its state at that moment, where it is not that of now.
        """
        if self.alive or power:
            self.when_lost(self, window, "power" if power else "killed")
        self._leave(power, disk)

    def _leave(self, power: bool = False, disk: Disk | None = None) -> None:
        self.machine.world.dead.append((self.service, self.server))
        self.machine.end(power, disk)

    def empty(self) -> None:
        """Give the machine an empty disk; no process runs."""
        self.machine.empty()

    def stop(self) -> Deferred[None]:
        """Stop the process in order; fires when it has ended."""
        assert self.service is not None
        life = self.machine.life

        def gone(result: object) -> None:
            if self.machine.life is life:
                self._leave()

        return self.service.stopService().addBoth(gone)

    def finish(self, env: SimEnvironment, configuration: Configuration, services: list[Any]) -> NodeService:
        """Return the service that holds the services of a process, its tables read."""
        tables = [table for service in services for table in service.tables]
        check_tables(env, tables, ())
        node = NodeService(env, configuration, user=lambda: 1000)
        for service in services:
            service.setServiceParent(node)
        return node

    def configure(self, env: IEnvironment, tables: Any) -> Configuration:
        """Return the configuration of a process."""
        surroundings = Surroundings(env.host.name, env.host.home(), env.host.variable)
        return settled(env, load(surroundings, tables, flags=self.flags))


class RegistryNode(Node):
    """A registry."""

    server: Registry | None

    def assemble(self, env: SimEnvironment, process: Process) -> tuple[NodeService, Registry]:
        """Assemble a registry as its command does."""
        configuration = self.configure(env, REGISTRY)
        tls = registry_node.prepare(env, configuration)
        sweeper = process_sweeper(env, configuration.limits)
        options = RegistryOptions()
        services = registry_node.assemble(env, options, configuration, tls, process, sweeper)
        return self.finish(env, configuration, services), services[0]

    @property
    def address(self) -> str:
        """Return C{host:port}."""
        return f"{self.machine.address}:9876"

    @property
    def ready(self) -> bool:
        """Tell whether it serves."""
        return self.server is not None and self.alive and bool(self.server.running)


class BrokerNode(Node):
    """
    A broker, master or slave.

    @ivar emptied: it began anew on an empty disk.
    @ivar failed_at: the virtual time at which the store of the process that runs failed, as a sync did; C{None} where
        it has not.
    """

    server: Broker | None

    def __init__(self, machine: Machine, flags: Flags, profile: Profile) -> None:
        super().__init__(machine, flags, profile)
        self.emptied = False
        self.failed_at: float | None = None
        self._watched: OpenBroker | None = None  # whose store is watched
        self._begun_at: float | None = None  # when its log was first seen to have its master's first messages
        self._began_late = False  # its log was empty until its master's first file was full

    def assemble(self, env: SimEnvironment, process: Process) -> tuple[NodeService, Broker]:
        """Assemble a broker as its command does, with files that are soon full."""
        configuration = self.configure(env, BROKER)
        broker_node.prepare(env, configuration)
        sweeper = process_sweeper(env, configuration.limits)
        limits = server_limits(configuration.limits, configuration.limits.server_channel_max_idle_time_seconds)
        settings = msgspec.structs.replace(
            store_settings(configuration.store),
            log_file_size=self.profile.log_file_size,
            queue_file_size=self.profile.queue_file_size,
            touch_ahead=0,
        )
        broker = Broker(env, configuration, sweeper, BrokerSecurity(), limits, process.failed_store, settings)
        process.watch(broker.ready)
        return self.finish(env, configuration, [broker]), broker

    def start(self) -> None:
        """Start a process; see L{ready}."""
        self.failed_at = None
        super().start()

    def kill(self, power: bool = False, window: float = 0.0, disk: Disk | None = None) -> None:
        """See L{Node.kill}; a power cut may leave an empty log where that was begun just before."""
        self.look()
        super().kill(power, window, disk)
        if power and self._begun_at is not None and self.machine.world.kernel.now - self._begun_at <= window:
            self._begun_at = None

    def empty(self) -> None:
        """Give the machine an empty disk; no process runs."""
        self.emptied = True
        super().empty()

    def look(self) -> None:
        """Note where the log begins, and when the store fails."""
        opened = self.opened
        if opened is None:
            return
        if self._watched is not opened:
            self._watched = opened
            opened.store.when_failed(lambda _: self._store_failed(opened))
        minimum, end = opened.store.log_bounds()
        if self.is_master or minimum == end:
            return
        if minimum <= self.profile.log_begins:
            if self._begun_at is None:
                self._begun_at = self.machine.world.kernel.now
        elif self._begun_at is None:
            self._began_late = True

    def _store_failed(self, opened: OpenBroker) -> None:
        now, disk = self.machine.world.kernel.now, self.machine.disk
        if opened is self.opened and now - disk.sync_failed_at <= self.machine.longest_call:
            self.failed_at = now

    @property
    def whole(self) -> bool:
        """
        Tell whether its log is to go back to the first message of its master.

        A slave whose log is empty begins with its master's last file (docs/spec/ha#wire): one that was emptied, and one
        that got nothing before its master's first file was full.
        """
        self.look()
        return not (self.emptied or self._began_late)

    @property
    def opened(self) -> OpenBroker | None:
        """Return the broker with its open store; C{None} where there is none."""
        return None if self.server is None or not self.alive else self.server.opened

    @property
    def ready(self) -> bool:
        """Tell whether it serves."""
        return self.server is not None and self.alive and self.server.state.name == "READY"

    @property
    def address(self) -> str:
        """Return C{host:port} for clients."""
        return f"{self.machine.address}:10911"

    @property
    def broker(self) -> str:
        """Return the name that master and slave share."""
        return self.flags["brokerName"]

    @property
    def is_master(self) -> bool:
        """Tell whether it is a master."""
        return self.flags["brokerRole"] != "SLAVE"

    @property
    def follows(self) -> bool:
        """Tell whether it is a slave that follows its master."""
        return self.opened is not None and self.opened.replication.now().state is SlaveState.FOLLOWING


class Cluster:
    """
    The servers of a simulation.

    @ivar registries: the registries.
    @ivar brokers: the brokers by name: C{broker-a-0}, the master, C{broker-a-1}, its slave, and so on.
    @ivar clients: the machines of clients, by name.
    """

    def __init__(self, kernel: Kernel, streams: Streams, profile: Profile) -> None:
        self.kernel = kernel
        self.streams = streams
        self.profile = profile
        self.world = World(kernel, streams, profile.rare_paths)
        network = self.world.network
        network.latency, network.split, network.short = profile.latency, profile.split, profile.short
        self.registries = [self._registry(number) for number in range(2)]
        self.brokers: dict[str, BrokerNode] = {}
        self.clients: dict[str, Machine] = {}
        for pair in PAIRS:
            for slave in (False, True):
                node = self._broker(pair, slave)
                self.brokers[node.name] = node

    @property
    def nodes(self) -> list[Node]:
        """All servers."""
        return [*self.registries, *self.brokers.values()]

    @property
    def registry_addresses(self) -> str:
        """The addresses of the registries, as settings name them."""
        return ";".join(one.address for one in self.registries)

    def master(self, pair: str) -> BrokerNode:
        """Return the master of a pair."""
        return self.brokers[f"broker-{pair}-0"]

    def slave(self, pair: str) -> BrokerNode:
        """Return the slave of a pair."""
        return self.brokers[f"broker-{pair}-1"]

    def start(self) -> None:
        """Start all servers."""
        for node in self.nodes:
            node.start()
        self._look()

    def _look(self) -> None:
        for node in self.brokers.values():
            node.look()
        self.kernel.later(_LOOK, self._look)

    def client_environment(self, name: str) -> SimEnvironment:
        """Begin a client's process, on the machine of that name; return its environment."""
        if name not in self.clients:
            self.clients[name] = self._machine(name)
        return self.clients[name].begin()

    def kill_client(self, name: str) -> None:
        """Kill a client's process."""
        self.clients[name].end(power=False)

    def _machine(self, name: str) -> Machine:
        """Add a machine whose clock runs fast or slow."""
        machine = self.world.machine(name)
        machine.call = self.profile.call
        machine.disk.names_apart = self.profile.names_apart
        machine.rate = 1 + self.profile.drift * self.streams.of(f"drift {name}").uniform(-1, 1)
        return machine

    def _registry(self, number: int) -> RegistryNode:
        machine = self._machine(f"registry-{number}")
        flags = {"bindAddress": machine.address, "allowInsecure": "true", "kvConfigPath": "/registry/kv.json"}
        flags["adminAllow"] = "10.0.0.0/8"
        return RegistryNode(machine, {f"registry.{name}": value for name, value in flags.items()}, self.profile)

    def _broker(self, pair: str, slave: bool) -> BrokerNode:
        profile = self.profile
        machine = self._machine(f"broker-{pair}-{slave:d}")
        flags = {
            "brokerClusterName": "sim",
            "brokerName": f"broker-{pair}",
            "brokerRole": "SYNC_MASTER" if profile.sync_master else "ASYNC_MASTER",
            "bindAddress": machine.address,
            "haBindAddress": machine.address,
            "allowInsecure": "true",
            "brokerIP1": machine.address,
            "brokerIP2": machine.address,
            "namesrvAddr": self.registry_addresses,
            "storePathRootDir": ROOT,
            "messageDelayLevel": "1s 5s 10s 20s",
            "flushDiskType": "SYNC_FLUSH" if profile.sync_flush else "ASYNC_FLUSH",
            "haAckMode": "flush" if profile.ack_flush else "append",
            "maxHashSlotNum": "64",
            "maxIndexNum": "256",
        }
        if slave:
            flags |= {"brokerRole": "SLAVE", "brokerId": "1"}
        elif profile.log_begins:  # recovery takes a file of zeros for an empty log that begins there
            log = f"{ROOT}/commitlog"
            machine.disk.make_directories(log)
            machine.disk.allocate(f"{log}/{profile.log_begins:020d}", profile.log_file_size)
            machine.disk.sync_directory(log)
        return BrokerNode(machine, flags, profile)
