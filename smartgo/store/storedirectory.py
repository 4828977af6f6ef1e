"""The directory of a store, held against other processes, and what is open of it."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IDirectoryLock, IEnvironment
from smartgo.store.checkpoint import CheckpointFiles
from smartgo.store.mappedfile import OpenMappings
from smartgo.store.settings import StoreSettings

_FEWEST_MAPPINGS: Final = 16
_DESCRIPTOR_SHARE: Final = 8  # a mapping takes two descriptors; connections need the rest


class StoreDirectory:
    """
    A locked store directory, its mappings and its checkpoint files, until L{release}.

    @ivar root: its path.
    @ivar mappings: the files that are mapped.
    @ivar checkpoints: its checkpoint files.
    """

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        """
        Make the directory if it is missing, and lock it.

        @raise StoreHeld: another process has it; nothing was changed.
        @raise OSError: as the system says.
        """
        env.files.make_directories(root)
        self.root = root
        self._lock: IDirectoryLock | None = env.files.lock_directory(root)
        limit = min(settings.open_mappings, max(_FEWEST_MAPPINGS, env.host.open_file_limit() // _DESCRIPTOR_SHARE))
        self.mappings = OpenMappings(env.files, _FEWEST_MAPPINGS if env.buggify("mappings.few") else limit)
        self.checkpoints = CheckpointFiles(env.files, root)

    def release(self) -> None:
        """Close all files, and release the lock."""
        self.mappings.close_all()
        self.checkpoints.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
