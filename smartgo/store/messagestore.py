"""
The life of a message store as a Service: it opens when the service starts, and closes when it stops.

The store itself is an L{OpenStore<smartgo.store.openstore.OpenStore>}: whoever works with it gets it when it is open. A
store owns its directory: no other process may have it, RocketMQ's brokers included, whose files these are.
"""

from __future__ import annotations

from functools import partial

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IEnvironment
from smartgo.observer import OneShotObserver
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.progress import RecoveredSoFar, RecoveryProgress
from smartgo.store.refusal import Refusal
from smartgo.store.settings import StoreSettings


class MessageStore(Service):
    """
    The Service that opens one store when it starts, and closes it when it stops.

    @ivar root: the directory.
    """

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        """
        @param root: the store's directory, made if missing.
        """
        self.root = root
        self._progress = RecoveryProgress(env.clock.seconds)
        self._open = partial(open_store, env, root, settings, self._is_cancelled, self._progress)
        self._begun = False
        self._opened: OneShotObserver[OpenStore] = OneShotObserver()
        self._store: OpenStore | None = None
        self._stopped: OneShotObserver[None] | None = None

    @property
    def opened(self) -> Deferred[OpenStore]:
        """A new Deferred that fires with the store when it is open, or fails as L{open_store} does."""
        return self._opened.when()

    @property
    def recovered_so_far(self) -> RecoveredSoFar | None:
        """The progress of the recovery; C{None} where none reads the log."""
        return self._progress.now

    @property
    def refusal(self) -> Refusal | None:
        """The reason why messages are refused now, on a slave those of its master; C{None} while they are accepted."""
        if self._store is not None:
            return self._store.refusal
        return Refusal(RefusalKind.NOT_OPEN, "the store is not open")

    def startService(self) -> None:
        """Begin to open the store; see C{opened}."""
        super().startService()
        if not self._begun and self._stopped is None:
            self._begun = True
            self._open().addCallback(self._keep).addBoth(self._opened.fire)

    def _keep(self, store: OpenStore) -> OpenStore:
        self._store = store
        return store

    def _is_cancelled(self) -> bool:
        """Tell whether the service was stopped; called in the thread of the recovery."""
        return not self.running

    def stopService(self) -> Deferred[None]:
        """Close the store, or cancel its opening; fires when nothing of the store runs any more."""
        if self.running:
            super().stopService()
        if self._stopped is None:
            self._stopped = OneShotObserver.of(Deferred.fromCoroutine(self._stop()))
        return self._stopped.when()

    async def _stop(self) -> None:
        if self._begun:
            await self._opened.when().addErrback(lambda failure: None)  # whoever waits for the store is told
        if self._store is not None:
            await self._store.close()
