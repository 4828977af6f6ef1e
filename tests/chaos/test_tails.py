"""A torn tail of the log of a killed broker (F5): cut or zeroed anywhere in the last record or the last page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from smartgo.schema.message import StoredMessage
from smartgo.schema.recordscan import scan
from tests.chaos.case import LONG, TOPIC, ChaosCase
from tests.chaos.diskcase import restore
from tests.chaos.pulls import read_queue
from tests.chaos.rounds import Round
from tests.interop import logs
from tests.interop.peers import Node
from tests.interop.process import ProcessFailed

_QUEUES = 4
_COUNT = 60  # messages
_SIZE = 120  # bytes of a body
_PAGE = 4096
_SECTOR = 512
_UNFLUSHED = {"flushIntervalCommitLog": "60000"}
_CHECKPOINTED = 3.0  # seconds after which all is flushed and a checkpoint says so
_SOME = 4  # of the bytes of the last record, in the short run


class TailTests(ChaosCase):
    """A broker is killed; its log is torn, again and again, and the broker is started on it."""

    def killed(self, settings: Mapping[str, str], wait: float = 0.0) -> tuple[Round, Node, str, list[StoredMessage]]:
        """
        Return a round whose broker was killed, a copy of its store, and the records in its log.

        @param wait: seconds between the last send and the kill.
        """
        run = self.round("tails")
        run.registry()
        node = run.broker("master", settings=settings)
        run.start()
        run.topic(TOPIC)
        run.load(TOPIC, producers=1, rate=0, size=_SIZE, limit=_COUNT).wait(60)
        run.pause(wait)
        node.kill()
        copy = os.path.join(run.home, "copy")
        shutil.copytree(node.plan.store, copy)
        records = list(scan(Path(log_of(node)).read_bytes(), 0, 0))
        self.assertEqual(records[-1].physical_offset + records[-1].size, logs.log_end(copy))
        return run, node, copy, records

    def places(self, records: list[StoredMessage]) -> list[int]:
        """Return the places at which the log is torn: in the last record, and each sector of the last page."""
        last = records[-1]
        begin, end = last.physical_offset, last.physical_offset + last.size
        inside = list(range(begin + 1, end)) if LONG else self.random.sample(range(begin + 1, end), _SOME)
        return [*inside, *range(max(_SECTOR, (end - 1) // _PAGE * _PAGE), end, _SECTOR)]

    def test_zeroed(self) -> None:
        """Of a log that was not flushed the last whole record is the end; what was torn is in quarantine."""
        run, node, copy, records = self.killed(_UNFLUSHED)
        places = self.places(records)
        for at in places:
            restore(copy, node)
            with open(log_of(node), "r+b") as file:
                file.seek(at)
                file.write(bytes(end_of(records) - at))
            self.assert_ends(node, records, at)
        run.figure("zeroed from a place on", "the last whole record", f"{len(places)} places, all so")

    def test_cut(self) -> None:
        """
        A log file that was cut is refused by its name, and nothing is changed: its length could be another setting's.
        After "smartgo store repair" the last whole record is the end; what was cut is in quarantine.
        """
        run, node, copy, records = self.killed({}, _CHECKPOINTED)
        places = self.places(records)
        for at in places:
            restore(copy, node)
            os.truncate(log_of(node), at)
            before = Path(log_of(node)).read_bytes()
            error = self.assertRaises(ProcessFailed, node.start)
            self.assertIn(f"{log_of(node)} has {at} B", str(error))
            self.assertIn("smartgo store repair", str(error))
            self.assertEqual(Path(log_of(node)).read_bytes(), before)
            command = [sys.executable, "-m", "smartgo.cli.main", "store", "repair", node.plan.store, "--yes"]
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            whole = [one for one in records if one.physical_offset + one.size <= at]
            self.assertEqual(logs.log_end(node.plan.store), end_of(whole), f"cut at {at}")
            folder = Path(node.plan.store, "quarantine")
            kept = b"".join(path.read_bytes() for path in folder.glob(f"{end_of(whole):020d}-*.bytes"))
            self.assertEqual(kept, before[end_of(whole) :].rstrip(b"\0"), f"cut at {at}")
            node.start()
            self.assert_rest(node, whole, f"cut at {at}")
            node.kill()
        run.figure("cut at a place, then repaired", "the last whole record", f"{len(places)} places, all so")

    def assert_ends(self, node: Node, records: list[StoredMessage], at: int) -> None:
        """Start a broker whose log was torn at a place; check where it ends, the quarantine, and the next send."""
        self.assertLessEqual(logs.log_end(node.plan.store), at, "the log was not torn")
        whole = [one for one in records if one.physical_offset + one.size <= at]
        torn = any(Path(log_of(node)).read_bytes()[end_of(whole) : at])
        node.start()
        self.assert_rest(node, whole, f"torn at {at}")
        self.assertEqual(logs.log_end(node.plan.store), end_of(whole))
        folder = Path(node.plan.store, "quarantine")
        kept = [path.name for path in folder.iterdir()] if folder.exists() else []
        self.assertEqual([name[:20] for name in kept], [f"{end_of(whole):020d}"] if torn else [], f"torn at {at}")
        node.kill()

    def assert_rest(self, node: Node, whole: list[StoredMessage], where: str) -> None:
        """Fail unless a broker has just these messages."""
        wanted: dict[int, list[bytes]] = defaultdict(list)
        for record in whole:
            if record.topic == TOPIC:
                wanted[record.queue_id].append(bytes(record.body))
        for queue in range(_QUEUES):
            found = read_queue(node, TOPIC, queue)
            self.assertEqual([one.body for one in found], wanted[queue], f"{where}, queue {queue}")
            self.assertEqual([one.offset for one in found], list(range(len(found))), where)


def end_of(records: list[StoredMessage]) -> int:
    """Return the physical offset behind the last of some records."""
    return records[-1].physical_offset + records[-1].size


def log_of(node: Node) -> str:
    """Return the path of the log's only file."""
    return os.path.join(node.plan.store, "commitlog", f"{0:020d}")
