"""What the compiled module of sends has; the interfaces are those of its twins in Python."""

from collections.abc import Sequence

from smartgo.broker.sendrun import PureSendRun as SendRun
from smartgo.net.hub import PureHub as Hub
from smartgo.store.tails import PureLogTail as LogTail
from smartgo.store.tails import PureQueueTail as QueueTail

__all__ = ["Hub", "LogTail", "QueueTail", "SendRun", "crc32", "index_keys"]

def index_keys(view: bytes | memoryview, starts: Sequence[int], base: int) -> tuple[bytes, bytes, bytes, int]: ...
def crc32(data: bytes, by_tables: bool = False) -> int: ...
