"""The entries of the runtime information (28), and of the metrics, about a broker's store and replication."""

from __future__ import annotations

from smartgo.auth.connections import AccessControl
from smartgo.broker.cluster.replicationstate import Replication, replication_info
from smartgo.broker.settings.storesettings import size_text
from smartgo.broker.stages.delaydelivery import DelayDelivery
from smartgo.config.settings import StoreConfig
from smartgo.env.interfaces import IFiles
from smartgo.env.product import product_version
from smartgo.schema import refusalkind
from smartgo.schema.record import decode
from smartgo.schema.timers import COUNTING, TIMERS_WAIT
from smartgo.schema.topics import SCHEDULE_TOPIC
from smartgo.store.openstore import OpenStore


class RuntimeInfo:
    """Figures of one broker's store and replication; asked while the store is open."""

    def __init__(
        self,
        files: IFiles,
        config: StoreConfig,
        store: OpenStore,
        delay: DelayDelivery,
        replication: Replication,
        access: AccessControl | None = None,
    ) -> None:
        """@param access: the rules of access control; C{None} where it is off."""
        self._access = access
        self._files = files
        self._config = config
        self._store = store
        self._delay = delay
        self._replication = replication
        self._product = product_version()
        self._earliest_ms = -1
        self._earliest_of = -1  # the physical offset that it was asked of

    def disk_usage(self) -> tuple[int, int]:
        """Total and free bytes of the store's file system."""
        total, free = self._files.usage(self._config.store_path_root_dir)
        return total, free

    @property
    def earliest_ms(self) -> int:
        """
        The time at which the log's first message was stored, in ms; -1 until it is known. Reading it starts the
        look-up.
        """
        first, end = self._store.log_bounds()
        if first < end and first != self._earliest_of:
            self._earliest_of = first
            self._store.at(first).addCallbacks(self._note_earliest, lambda failure: None)
        return self._earliest_ms

    def _note_earliest(self, record: bytes) -> None:
        self._earliest_ms = decode(record).stored_ms

    def entries(self) -> dict[str, str]:
        """Return what store and replication add to the runtime information (28)."""
        first, end = self._store.log_bounds()
        total, free = self.disk_usage()
        used = str(round(1 - free / total, 4)) if total else "0.0"
        info = {
            "earliestMessageTimeStamp": str(self.earliest_ms),
            "commitLogMinOffset": str(first),
            "commitLogMaxOffset": str(end),
            "commitLogDiskRatio": used,
            f"commitLogDiskRatio_{self._config.store_path_commit_log}": used,
            "consumeQueueDiskRatio": used,
            "commitLogDirCapacity": f"Total : {size_text(total)}, Free : {size_text(free)}.",
            "remainHowManyDataToFlush": size_text(end - self._store.flushed),
            "smartgoVersion": self._product,  # RocketMQ has nothing of this
            **replication_info(self._replication.now(), end),
        }
        timers = self._store.timers
        if timers is not None:
            info[TIMERS_WAIT] = str(timers.count) if timers.ready else COUNTING
        refusal = self._store.refusal
        if refusal is not None:
            # RocketMQ has nothing of this; a slave has it where it cannot copy.
            info[refusalkind.KIND] = refusal.kind.value
            info[refusalkind.WORDS] = refusal.words
        if self._access is not None and self._access.problem:
            info["accessFilesRefused"] = "1"  # nor of this; the words would tell clients of accounts
        obstacle = self._store.cleaner.obstacle
        if obstacle is not None:
            info[refusalkind.OBSTACLE] = obstacle  # nor of this
        if len(self._store.damage):
            info["damagedRegions"] = str(len(self._store.damage))  # nor of this
            info["damagedBytes"] = str(self._store.damage.size)
        for level, offset in self._delay.offsets.items():
            end_offset = self._store.bounds(SCHEDULE_TOPIC, level - 1)[1]
            if end_offset:
                info[f"scheduleMessageOffset_{level}"] = f"{offset},{end_offset}"
        return info
