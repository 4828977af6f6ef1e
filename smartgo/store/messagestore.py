"""
The life of a message store as a Service: it opens when the service starts, and closes when it stops.

The store itself is an L{OpenStore<smartgo.store.openstore.OpenStore>}: whoever works with it gets it when it is open. A
store owns its directory: no other process may have it, RocketMQ's brokers included, whose files these are.
"""

from __future__ import annotations

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.observer import OneShotObserver
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.opening import StoreOpening
from smartgo.store.openstore import OpenStore
from smartgo.store.refusal import Refusal
from smartgo.store.settings import StoreSettings


class MessageStore(Service):
    """
    The Service that opens one store when it starts, and closes it when it stops.

    @ivar root: the directory.
    @ivar opened: fires with the store when it is open, or fails as L{StoreOpening.run} does.
    """

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        """
        @param root: the store's directory, made if missing.
        """
        self.root = root
        self.opened: Deferred[OpenStore] = Deferred()
        self._opening = StoreOpening(env, root, settings)
        self._begun = False
        self._ended: Deferred[None] = Deferred()  # fires when the opening is over, however it ended
        self._store: OpenStore | None = None
        self._stopped: OneShotObserver[None] | None = None

    @property
    def refusal(self) -> Refusal | None:
        """Why messages are refused now, a slave's those of its master; C{None} while they are taken."""
        if self._store is not None:
            return self._store.refusal
        return Refusal(RefusalKind.NOT_OPEN, "the store is not open")

    def startService(self) -> None:
        """Begin to open the store; see C{opened}."""
        super().startService()
        if not self._begun and self._stopped is None:
            self._begun = True
            self._opening.run().addCallbacks(self._is_open, self._is_not_open)

    def _is_open(self, store: OpenStore) -> None:
        self._store = store
        self.opened.callback(store)
        self._ended.callback(None)

    def _is_not_open(self, failure: Failure) -> None:
        self.opened.errback(failure)
        self._ended.callback(None)

    def stopService(self) -> Deferred[None]:
        """Close the store, or cancel its opening; fires when nothing of the store runs any more."""
        if self.running:
            super().stopService()
        if self._stopped is None:
            self._stopped = OneShotObserver.of(Deferred.fromCoroutine(self._stop()))
        return self._stopped.when()

    async def _stop(self) -> None:
        if self._begun and not self._ended.called:
            self._opening.cancel()
            await self._ended
        if self._store is not None:
            await self._store.close()
