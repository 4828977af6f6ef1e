"""Both ends against a recorded replication of RocketMQ 4.9.7 (C{tests/golden/ha})."""

from __future__ import annotations

import json
import lzma
import os
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.transfer import MasterEnd, SlaveEnd
from smartgo.schema.hatransfer import report_struct
from tests.ha.fakes import FakeLog
from tests.ha.test_transfer import pieces

GOLDEN = os.path.join(os.path.dirname(os.path.dirname(__file__)), "golden", "ha", "stream.jsonl.xz")
FILE_SIZE = 65536


def recorded() -> list[list[dict[str, Any]]]:
    """Return what was said on each connection to the replication port, in order."""
    with lzma.open(GOLDEN, "rt", encoding="utf-8") as lines:
        said = [each for each in map(json.loads, lines) if each["port"] == "ha" and "hex" in each]
    return [[each for each in said if each["connection"] == number] for number in (1, 2)]


def bodies(said: dict[str, Any]) -> bytes:
    """Return the log in what a master said."""
    return b"".join(body for _, body in pieces(bytes.fromhex(said["hex"])))


class RecordedTests(SynchronousTestCase):
    """Our bytes in the place of either end."""

    def test_master(self) -> None:
        """To a RocketMQ slave's reports our master says what RocketMQ's did, byte for byte, in the same seconds."""
        log = FakeLog(begin=FILE_SIZE, file_size=FILE_SIZE)
        for connection in recorded():
            end = MasterEnd(log, now=connection[0]["t"])
            answers = [each for each in connection if each["from"] == "master"]
            log.append(bodies(answers[0]))  # it was there before the slave came
            for each in connection:
                if each["from"] == "slave":
                    end.receive(bytes.fromhex(each["hex"]), each["t"])
                    continue
                if each is not answers[0]:
                    log.append(bodies(each))
                sent = end.heartbeat(each["t"]) + end.send(1 << 20, each["t"])
                self.assertEqual(sent, bytes.fromhex(each["hex"]), each["t"])
            self.assertEqual(end.confirmed, log.end)

    def test_slave(self) -> None:
        """From what a RocketMQ master says our slave gets the same log, and reports places that RocketMQ's did."""
        log = FakeLog(file_size=FILE_SIZE)
        expected = b""
        for connection in recorded():
            now = connection[0]["t"]
            end = SlaveEnd(log, now)
            ours = [end.begin(now)]
            theirs = b"".join(bytes.fromhex(each["hex"]) for each in connection if each["from"] == "slave")
            for each in connection:
                if each["from"] == "master":
                    expected += bodies(each)
                    end.receive(bytes.fromhex(each["hex"]), each["t"])
                    ours.append(end.report(each["t"]))
                    self.assertEqual(log.data, expected)
            reports = [one for (one,) in report_struct.iter_unpack(b"".join(ours))]
            known = [one for (one,) in report_struct.iter_unpack(theirs)]
            self.assertLessEqual(set(reports), set(known))
            self.assertEqual((reports[0], reports[-1]), (known[0], known[-1]))
        self.assertEqual((log.begin, log.end), (FILE_SIZE, end.master_end))
