"""The kinds of reasons for which a broker's store takes no messages, as its runtime information names them."""

from __future__ import annotations

from enum import Enum
from typing import Final

KIND: Final = "storeRefusalKind"
"""The row of the runtime information (28) with the kind; it is there while messages are refused."""
WORDS: Final = "storeRefusal"
"""The row with the reason in words."""
OBSTACLE: Final = "retentionObstacle"
"""The row that says why retention cannot remove the log file that is to go; it is there while that is so."""


class RefusalKind(Enum):
    """The reasons why messages are refused. Tools read the values: they stay as they are."""

    NOT_OPEN = "notOpen"
    """The store is being opened."""
    CLOSED = "closed"
    """The store was closed, or is about to be."""
    FAILED = "failed"
    """A write or a flush failed: the store takes nothing before the next start (reliability D4)."""
    NO_ROOM = "noRoom"
    """No log file could be allocated."""
    DISK_FULL = "diskFull"
    """The file system is fuller than the settings allow (reliability L20)."""
    NOT_MASTER = "notMaster"
    """The broker may not be a master now."""
    SLAVE = "slave"
    """The store is a slave's, which takes what its master sends and nothing else."""
