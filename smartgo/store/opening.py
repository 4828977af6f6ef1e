"""Opening a store: take the directory, recover what is in it, and return a store that can do all that stores do."""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IEnvironment
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.recovery import Recovery
from smartgo.store.settings import StoreSettings
from smartgo.store.storedirectory import StoreDirectory

LANE: Final = "prepare"


class StoreOpening:
    """One attempt to open a store."""

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        """
        @param root: the store's directory, made if missing.
        """
        self._env = env
        self._root = root
        self._settings = settings
        self._recovery: Recovery | None = None

    def run(self) -> Deferred[OpenStore]:
        """
        Open the store; whatever it fails with, nothing of the store stays open.

        @raise StoreHeld: through the Deferred: another process has the directory; nothing was changed.
        @raise ForeignFile: it holds what no store of ours can work with; nothing was changed.
        @raise StoreDamaged: the log is damaged in the middle.
        @raise StoreError: a log file is missing, or the opening was cancelled.
        @raise OSError: as the system says.
        """
        return Deferred.fromCoroutine(self._run())

    def cancel(self) -> None:
        """Cancel the recovery; the Deferred of L{run} fails when the directory is released."""
        if self._recovery is not None:
            self._recovery.cancelled = True

    async def _run(self) -> OpenStore:
        env, settings = self._env, self._settings
        directory = StoreDirectory(env, self._root, settings)
        try:
            recovery = self._recovery = Recovery(env, settings, directory)
            recovered = await env.threads.run(LANE, recovery.run)
            return OpenStore(env, directory, settings, recovered)
        except BaseException:
            directory.release()
            raise


def open_store(env: IEnvironment, root: str, settings: StoreSettings) -> Deferred[OpenStore]:
    """Open the store in a directory, which is made if missing; see L{StoreOpening.run} for what may be raised."""
    return StoreOpening(env, root, settings).run()
