"""
The registry's tables of brokers and topics, and their rules, without any socket.

docs/spec/registry, after C{RouteInfoManager} of RocketMQ 4.9.8. Stricter than that (reliability H6): one
master for a broker name, one name for an address, as long as the first is alive. A master that lost its connection
and shows a lease takes its name back (L{smartgo.registry.leases}). The tables keep these promises:

 - every address of a broker name has a live entry, and the other way round;
 - every broker name has an address, is in exactly one cluster, and every cluster has a name;
 - every topic has a broker name that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zope.interface import implementer

from smartgo.registry.absent import AbsentMasters
from smartgo.registry.interfaces import BrokerSeen, IRoutes
from smartgo.registry.livebrokers import BrokerName, Dropped, LiveBroker, address_for, check_broker_room, is_repeat
from smartgo.registry.registration import MASTER, NameTaken, Registration
from smartgo.registry.topicqueues import READ, WRITE, TopicQueues
from smartgo.schema.advertised import ConnectionEnds
from smartgo.schema.bodies import BrokerData, ClusterInfo, DataVersion, TopicRouteData

EXPIRY = 120.0
"""Seconds of silence after which a broker is taken for dead."""


@implementer(IRoutes)
class RouteTable:
    """
    The routes of all topics and the registered brokers. Mutable, single-threaded.

    @ivar ordered: whether orders of topics are to be sent along with routes.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        expiry: float = EXPIRY,
        max_topics: int = 200_000,
        max_brokers: int = 10_000,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """
        @param seconds: the monotonic clock.
        @param expiry: seconds of silence after which a broker is taken for dead.
        @param wall_ms: the wall clock, of which leases tell.
        """
        self._seconds = seconds
        self._wall_ms = wall_ms
        self._expiry = expiry
        self._max_brokers = max_brokers
        self._queues = TopicQueues(max_topics)
        self._brokers: dict[str, BrokerName] = {}
        self._clusters: dict[str, dict[str, None]] = {}
        self._live: dict[str, LiveBroker] = {}
        self._addresses_of: dict[int, set[str]] = {}
        """C{id} of a channel to what was registered over it; the live entries keep the channels alive."""
        self._absent = AbsentMasters(seconds, expiry)
        self.displaced: list[Dropped] = []
        """Whom the last registration took the name from; the caller closes the connections."""

    # -- what brokers do -----------------------------------------------------------------------------------

    def register(self, one: Registration, channel: object) -> str | None:
        """
        Take a registration; all of it or nothing.

        @param channel: the connection it came over, compared by identity.
        @return: for a slave the usual address of its master; C{None} for a master, and where none is known.
        @raise NameTaken: another living process is this master, or has this address.
        @raise TableFull: too many brokers or topics.
        @raise BadName: a name or an address that is none.
        """
        self.displaced = []
        seen = self._live.get(one.address)
        if seen is not None and is_repeat(seen, one) and not self.lacks(one.address):
            return self._refresh(seen, one, channel)
        advertised, ha_advertised = one.check()
        proved = one.since_ms if one.since_ms is not None else self._absent.since(one)
        self._check_free(one, channel, proved)
        self._absent.check(one, proved)
        queues = one.queues()
        self._check_room(one, queues)

        if seen is not None and seen.name != one.name:
            self._drop(one.address)  # the process was given another name
            seen = None
        broker = self._join(one)
        if seen is not None:
            self._unlink(seen)
            if seen.broker_id != one.broker_id:  # a slave became master, or the other way round
                del broker.addresses[seen.broker_id]
        holder = broker.addresses.get(one.broker_id)
        if holder is not None and holder != one.address:
            self._displace(holder)
        broker.addresses[one.broker_id] = one.address
        if one.broker_id == MASTER:
            self._absent.back(one.name, one.address)
            if not broker.has_masters_topics:
                self._queues.drop(one.name)  # what a slave stood in with
                broker.has_masters_topics = True
            if holder is None or seen is None or seen.version != one.version:
                self._queues.serve(one.name, queues)
        elif (
            queues
            and broker.lacks(one.version, self._seconds())
            and self._queues.stand_in(one.name, queues, self._names_of(one))
        ):
            broker.slave_version = one.version
        since_ms = self._wall_ms() if proved is None else proved
        if seen is not None and seen.broker_id == one.broker_id:
            since_ms = min(since_ms, seen.since_ms)
        seen = LiveBroker.of(one, (advertised, ha_advertised), self._seconds(), channel, since_ms)
        self._live[one.address] = seen
        self._addresses_of.setdefault(id(channel), set()).add(one.address)
        return self._master_of(seen)

    def incumbents(self, one: Registration, channel: object) -> list[object]:
        """
        Return the connections over which others registered what this one claims: its address, or its id as a slave.

        Whoever asks has to find out whether they are still alive before this one is registered. A lease that counts
        says that it is the same process.

        @raise NameTaken: as L{register}.
        """
        if one.since_ms is not None:
            return []
        self._check_free(one, channel, self._absent.since(one))
        claimed = [self._live.get(one.address)]
        broker = self._brokers.get(one.name)
        if broker is not None and one.broker_id != MASTER and one.broker_id in broker.addresses:
            claimed.append(self._live[broker.addresses[one.broker_id]])
        found = {id(seen.channel): seen.channel for seen in claimed if seen is not None and self._alive(seen)}
        found.pop(id(channel), None)
        return list(found.values())

    def since(self, address: str) -> int:
        """Return since when a registered broker is what it is, in ms of the wall clock."""
        return self._live[address].since_ms

    def holds(self, address: str, channel: object) -> bool | None:
        """Tell whether an address was registered over this connection; C{None} for an unknown address."""
        seen = self._live.get(address)
        return None if seen is None else seen.channel is channel

    def names_over(self, channel: object) -> set[str]:
        """Return the broker names that were registered over a connection."""
        return {self._live[address].name for address in self._addresses_of.get(id(channel), ())}

    def repeats(self, address: str, digest: bytes) -> DataVersion | None:
        """Return the version that a broker registered last if that had this digest, else C{None}."""
        seen = self._live.get(address)
        known = seen is not None and digest and seen.digest == digest and not self.lacks(address)
        return seen.version if seen is not None and known else None

    def lacks(self, address: str) -> bool:
        """Tell whether the topics of a registered slave are wanted, as its name has no master, nor topics of one."""
        seen = self._live.get(address)
        if seen is None or seen.broker_id == MASTER:
            return False
        return self._brokers[seen.name].lacks(seen.version, self._seconds())

    def unregister(self, address: str, name: str, broker_id: int) -> bool:
        """
        Unregister a broker; return whether it was known.

        RocketMQ removes whatever address has this name and id. Here it must be the one that unregisters, or a
        second master that was refused would take the first one down with it.
        """
        seen = self._live.get(address)
        if seen is None or (seen.name, seen.broker_id) != (name, broker_id):
            return False
        self._drop(address)
        return True

    def channel_gone(self, channel: object) -> list[BrokerSeen]:
        """Forget what was registered over a connection that ended; return it. A master may come back for a while."""
        addresses = sorted(self._addresses_of.get(id(channel), ()))
        for one in [self._live[address] for address in addresses]:
            if one.broker_id == MASTER:
                self._absent.add(one.name, one.address, one.source, one.heard, one.since_ms)
        return [self._drop(address) for address in addresses]

    def expire(self) -> list[Dropped]:
        """Forget who has been silent for too long; return them with their channels, which the caller closes."""
        now = self._seconds()
        self._absent.expire()
        silent = [one for one in self._live.values() if now - one.heard > self._expiry]
        return [Dropped(self._drop(one.address), one.channel) for one in silent]

    def version(self, address: str) -> DataVersion | None:
        """Return the version of the topics that a broker registered last; C{None} for an unknown one."""
        seen = self._live.get(address)
        return None if seen is None else seen.version

    def heard(self, address: str) -> None:
        """Note that a broker is alive, if it is known."""
        seen = self._live.get(address)
        if seen is not None:
            seen.heard = self._seconds()

    # -- what administrators do ----------------------------------------------------------------------------

    def wipe_write(self, name: str) -> int:
        """Take the write permission from all topics of a broker, until it registers anew; return how many it has."""
        return self._queues.permit(name, lambda perm: perm & ~WRITE)

    def add_write(self, name: str) -> int:
        """Give all topics of a broker read and write permission, nothing else; return how many it has."""
        return self._queues.permit(name, lambda perm: READ | WRITE)

    def delete_topic(self, topic: str, cluster: str | None = None) -> int:
        """Forget who serves a topic: everybody, or the brokers of one cluster; return how many did."""
        names = self._queues.of(topic) if cluster is None else self._clusters.get(cluster, ())
        return self._queues.delete(topic, list(names))

    def serving(self, topic: str) -> list[str]:
        """Return the names of the brokers that serve a topic."""
        return list(self._queues.of(topic))

    # -- what anybody asks ---------------------------------------------------------------------------------

    def route(self, topic: str, asker: ConnectionEnds | None = None) -> TopicRouteData | None:
        """
        Return who serves a topic, brokers in the order of their names; C{None} where nobody does.

        @param asker: who is told the addresses; C{None}: the brokers' usual ones are wanted.
        """
        queues = self._queues.of(topic)
        if not queues:
            return None
        names = sorted(queues)
        return TopicRouteData(
            queue_datas=[queues[name] for name in names],
            broker_datas=[self._broker_data(name, asker) for name in names],
            filter_server_table={},
        )

    def told(self, address: str, asker: ConnectionEnds | None) -> str:
        """Return which address of a registered broker an asker is told: of those it advertises, or this usual one."""
        return address_for(self._live[address].advertised, asker) or address

    def told_ha(self, address: str, asker: ConnectionEnds) -> str:
        """Return where an asker is told to replicate from that broker, likewise; may be empty."""
        seen = self._live[address]
        return address_for(seen.ha_advertised, asker) or seen.ha_address

    def topics(self) -> list[str]:
        """Return all topics."""
        return self._queues.topics()

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics that brokers of a cluster serve; none for an unknown one."""
        found: dict[str, None] = {}
        for name in self._clusters.get(cluster, ()):
            found.update(dict.fromkeys(self._queues.topics_of(name)))
        return list(found)

    def unit_topics(self, unit: bool | None, subscribed: bool | None) -> list[str]:
        """Return the topics whose sys flag has, or has not, these bits, as L{TopicQueues.with_flags}."""
        return self._queues.with_flags(unit, subscribed)

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the names of clusters and brokers, which are topics too, and any broker's address."""
        names = {name: None for cluster, members in self._clusters.items() for name in (cluster, *members)}
        return list(names), next(iter(self._live), None)

    def cluster_info(self, asker: ConnectionEnds | None = None) -> ClusterInfo:
        """Return all brokers by name, and all names by cluster; C{asker} as for L{route}."""
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name, asker) for name in sorted(self._brokers)},
            cluster_addr_table={cluster: sorted(self._clusters[cluster]) for cluster in sorted(self._clusters)},
        )

    def brokers(self) -> list[BrokerSeen]:
        """Return every registered address."""
        return [self._seen(one) for one in self._live.values()]

    # -- checks --------------------------------------------------------------------------------------------

    def _check_free(self, one: Registration, channel: object, proved: int | None) -> None:
        here = self._live.get(one.address)
        if here is not None and here.name != one.name and here.channel is not channel and self._alive(here):
            raise NameTaken(
                f"{one.address} is registered by broker {here.name}, heard from {self._age(here)} ago", here.address
            )
        broker = self._brokers.get(one.name)
        if broker is None:
            return
        others = [self._live[address] for address in broker.addresses.values() if address != one.address]
        for other in filter(self._alive, others):
            if broker.cluster != one.cluster:
                raise NameTaken(
                    f"broker {one.name} belongs to cluster {broker.cluster}, heard from {self._age(other)} ago",
                    other.address,
                )
            older = proved is not None and proved < other.since_ms
            if one.broker_id == MASTER and other.broker_id == MASTER and not older:
                raise NameTaken(
                    f"{other.address} is the master of broker {one.name}, heard from {self._age(other)} ago; "
                    f"it keeps the name until it stops or is silent for {self._expiry:g} s",
                    other.address,
                )

    def _check_room(self, one: Registration, topics: Iterable[str]) -> None:
        if one.address not in self._live:
            check_broker_room(one, self._live.values(), self._max_brokers)
        if one.broker_id == MASTER:
            self._queues.check_room(topics, one.name, self._names_of(one))

    def _names_of(self, one: Registration) -> Iterable[str]:
        """Return the broker names of the same source."""
        return (seen.name for seen in self._live.values() if one.source and seen.source == one.source)

    def _alive(self, one: LiveBroker) -> bool:
        return self._seconds() - one.heard <= self._expiry

    def _age(self, one: LiveBroker) -> str:
        return f"{self._seconds() - one.heard:.0f} s"

    # -- changes -------------------------------------------------------------------------------------------

    def _join(self, one: Registration) -> BrokerName:
        broker = self._brokers.get(one.name)
        if broker is None:
            broker = self._brokers[one.name] = BrokerName(one.cluster, {}, self._seconds())
        elif broker.cluster != one.cluster:  # nobody else of that name is alive: it has moved
            self._leave(broker.cluster, one.name)
            broker.cluster = one.cluster
        self._clusters.setdefault(one.cluster, {})[one.name] = None
        return broker

    def _leave(self, cluster: str, name: str) -> None:
        members = self._clusters[cluster]
        del members[name]
        if not members:
            del self._clusters[cluster]

    def _displace(self, address: str) -> None:
        """Remove a broker whose place another process has taken."""
        seen = self._live.pop(address)
        self._unlink(seen)
        if self._alive(seen):
            self.displaced.append(Dropped(self._seen(seen), seen.channel))

    def _drop(self, address: str) -> BrokerSeen:
        seen = self._live.pop(address)
        self._unlink(seen)
        broker = self._brokers[seen.name]
        del broker.addresses[seen.broker_id]
        if not broker.addresses:
            del self._brokers[seen.name]
            self._leave(broker.cluster, seen.name)
            self._queues.drop(seen.name)
        return self._seen(seen)

    def _unlink(self, seen: LiveBroker) -> None:
        addresses = self._addresses_of.get(id(seen.channel))
        if addresses is not None:
            addresses.discard(seen.address)
            if not addresses:
                del self._addresses_of[id(seen.channel)]

    def _refresh(self, seen: LiveBroker, one: Registration, channel: object) -> str | None:
        self._unlink(seen)
        seen.ha_address, seen.digest, seen.heard, seen.channel = one.ha_address, one.digest, self._seconds(), channel
        self._addresses_of.setdefault(id(channel), set()).add(one.address)
        return self._master_of(seen)

    # -- answers -------------------------------------------------------------------------------------------

    def _master_of(self, seen: LiveBroker) -> str | None:
        return None if seen.broker_id == MASTER else self._brokers[seen.name].addresses.get(MASTER)

    def _broker_data(self, name: str, asker: ConnectionEnds | None) -> BrokerData:
        broker = self._brokers[name]
        addresses = {number: self.told(broker.addresses[number], asker) for number in sorted(broker.addresses)}
        return BrokerData(cluster=broker.cluster, broker_name=name, broker_addrs=addresses)

    def _seen(self, one: LiveBroker) -> BrokerSeen:
        age = self._seconds() - one.heard
        return BrokerSeen(one.cluster, one.name, one.broker_id, one.address, one.ha_address, age)
