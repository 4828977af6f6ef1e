"""Opening a store: take the directory, recover what is in it, and return a store that can do all that stores do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IEnvironment
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.progress import RecoveryProgress
from smartgo.store.recovery.recovery import Recovery
from smartgo.store.settings import StoreSettings
from smartgo.store.storedirectory import StoreDirectory

LANE: Final = "prepare"


def open_store(
    env: IEnvironment,
    root: str,
    settings: StoreSettings,
    is_cancelled: Callable[[], bool] = lambda: False,
    progress: RecoveryProgress | None = None,
) -> Deferred[OpenStore]:
    """
    Open the store in a directory; whatever that fails with, nothing of the store stays open.

    @param root: the store's directory, made if missing.
    @param is_cancelled: asked by the recovery, in a thread, every few MiB; once it returns C{True} the Deferred fails
        as soon as the directory is released. Cancelling the Deferred itself is not supported.
    @param progress: shows how far the recovery is; C{None}: nobody asks.
    @raise StoreHeld: through the Deferred: another process has the directory; nothing was changed.
    @raise ForeignFile: it holds what no store of ours can work with; nothing was changed.
    @raise StoreError: a log file is missing, or the opening was cancelled.
    @raise OSError: as the system says.
    """
    shown = RecoveryProgress(env.clock.seconds) if progress is None else progress
    return Deferred.fromCoroutine(_open(env, root, settings, is_cancelled, shown))


async def _open(
    env: IEnvironment, root: str, settings: StoreSettings, is_cancelled: Callable[[], bool], progress: RecoveryProgress
) -> OpenStore:
    directory = StoreDirectory(env, root, settings)
    try:
        recovery = Recovery(env, settings, directory, is_cancelled, progress)
        recovered = await env.threads.run(LANE, recovery.run)
        return OpenStore(env, directory, settings, recovered)
    except BaseException:
        directory.release()
        raise
    finally:
        progress.end()
