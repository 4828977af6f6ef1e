"""
Namespaced settings, kept in C{kvConfig.json} as RocketMQ does.

C{{"configTable":{"ORDER_TOPIC_CONFIG":{"topic":"broker-a:8;broker-b:8"}}}}. Source: C{KVConfigManager} of RocketMQ
4.9.8; a namespace stays when its last key is deleted.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from smartgo.errors import QueryNotFound, RequestRefused
from smartgo.observer import OneShotObserver
from smartgo.schema.bodies import KVConfigTable
from smartgo.tablefile import TableFile

ORDER_TOPICS = "ORDER_TOPIC_CONFIG"
"""The namespace of order topics: topic to C{brokerName:queueCount}, joined by C{;}."""

SIZE_LIMIT = 16 * 1024 * 1024
"""Characters of all names and values together."""

WRITTEN = 4 * 1024 * 1024
"""Characters of the table that are written in a second: the whole table is written for each change."""

SMALL = 64 * 1024
"""Characters of a table that is written at once for every change."""

PAUSE = 2.0
"""Seconds that a change waits at most for earlier writes; the official tools wait 5 for the answer."""


class KvConfig:
    """
    The table and its file. Called on the reactor thread.

    A small table is written for every change. A large one is written once for all changes of up to L{PAUSE} s.
    """

    def __init__(self, file: TableFile, clock: IReactorTime, size_limit: int = SIZE_LIMIT) -> None:
        self._file = file
        self._clock = clock
        self._pause_until = 0.0
        self._timer: IDelayedCall | None = None
        self._waiting: OneShotObserver[None] = OneShotObserver()
        self._size_limit = size_limit
        self._size = 0
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """
        Read the file; blocking.

        @raise smartgo.errors.BrokenTable: it is there and cannot be read.
        """
        saved = self._file.load(KVConfigTable.decode)
        self._table = {} if saved is None else saved.config_table
        self._size = sum(_size(namespace, key, value) for namespace, key, value in self._items())

    def get(self, namespace: str, key: str) -> str | None:
        """Return one value; C{None} where there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str]:
        """
        Return all keys and values of a namespace; not to be changed.

        @raise QueryNotFound: there is no such namespace.
        """
        found = self._table.get(namespace)
        if found is None:
            raise QueryNotFound(f"No config item, Namespace: {namespace}")
        return found

    def put(self, namespace: str, key: str, value: str) -> Deferred[None]:
        """
        Set a value; in effect at once, the Deferred fires when it is saved.

        @raise RequestRefused: the table would grow beyond its limit.
        """
        old = self.get(namespace, key)
        size = self._size + _size(namespace, key, value) - (0 if old is None else _size(namespace, key, old))
        if size > self._size_limit and (old is None or len(value) > len(old)):
            raise RequestRefused(f"the settings would be longer than {self._size_limit} characters")
        self._size = size
        self._table.setdefault(namespace, {})[key] = value
        return self._save()

    def delete(self, namespace: str, key: str) -> Deferred[None]:
        """Remove a value, if it is there; as L{put}."""
        old = self._table.get(namespace, {}).pop(key, None)
        if old is not None:
            self._size -= _size(namespace, key, old)
        return self._save()

    def keys_of(self, namespace: str, value: str) -> list[str]:
        """Return the keys of a namespace that have this value, in the order they were set."""
        return [key for key, one in self._table.get(namespace, {}).items() if one == value]

    def delete_value(self, namespace: str, value: str) -> Deferred[None]:
        """Remove the keys that have this value, if there are any; as L{put}."""
        for key in self.keys_of(namespace, value):
            del self._table[namespace][key]
            self._size -= _size(namespace, key, value)
        return self._save()

    def settled(self) -> Deferred[None]:
        """Save what waits; fire when nothing is being saved any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._save_waiting()
        return self._file.settled()

    def _save(self) -> Deferred[None]:
        now = self._clock.seconds()
        if self._timer is None and now >= self._pause_until:
            return self._save_now()
        if self._timer is None:
            self._timer = self._clock.callLater(self._pause_until - now, self._save_waiting)
        return self._waiting.when()

    def _save_now(self) -> Deferred[None]:
        if self._size > SMALL:
            self._pause_until = self._clock.seconds() + min(PAUSE, self._size / WRITTEN)
        return self._file.save(KVConfigTable(self._table))

    def _save_waiting(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, OneShotObserver()
        self._save_now().addBoth(waiting.fire)

    def _items(self) -> list[tuple[str, str, str]]:
        return [(namespace, key, keys[key]) for namespace, keys in self._table.items() for key in keys]


def _size(namespace: str, key: str, value: str) -> int:
    return len(namespace) + len(key) + len(value)
