"""What the compiled module of sends has; the interfaces are those of its twins in Python."""

from collections.abc import Sequence

from smartgo.broker.pullrun import NoPullRun as PullRun
from smartgo.broker.sendrun import PureSendRun as SendRun
from smartgo.net.hub import PureHub as Hub
from smartgo.remoting.rungrants import NoRunGrants as RunGrants
from smartgo.schema.indexkeys import Keys
from smartgo.spark.decoder import NoLogColumns as LogColumns
from smartgo.store.queues.picking import pure_adjacent_units as adjacent_units
from smartgo.store.queues.picking import pure_pick_units as pick_units
from smartgo.store.tails import PureLogTail as LogTail
from smartgo.store.tails import PureQueueTail as QueueTail

__all__ = [
    "Hub", "LogColumns", "LogTail", "PullRun", "QueueTail", "RunGrants", "SendRun", "adjacent_units", "crc32",
    "hmac_sha1", "index_keys", "index_put", "pick_units", "sha1_state",
]  # fmt: skip

def index_keys(view: bytes | memoryview, starts: Sequence[int], base: int) -> tuple[bytes, bytes, bytes, int]: ...
def index_put(view: memoryview, slots_at: int, slots: int, first: int, begin_ms: int, columns: Keys) -> int | None: ...
def crc32(data: bytes, by_tables: bool = False) -> int: ...
def hmac_sha1(secret: bytes, parts: list[bytes]) -> bytes: ...
def sha1_state(blocks: bytes, plain: bool = False) -> list[int]: ...
