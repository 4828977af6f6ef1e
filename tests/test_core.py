"""The choice between the compiled core and Python."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from smartgo import core
from smartgo.broker.sendrun import PureSendRun, SendRun
from smartgo.net.hub import Hub, PureHub
from smartgo.store.commitlog import CommitLog
from smartgo.store.index.runkeys import index_keys, index_put, pure_index_keys, pure_index_put
from smartgo.store.queues.file import ConsumeQueue
from smartgo.store.queues.picking import adjacent_units, pick_units, pure_adjacent_units, pure_pick_units
from smartgo.store.tails import LogTail, PureLogTail, PureQueueTail, QueueTail
from tests.test_layers import ROOT

ASK = """
from smartgo.core import CORE, IS_COMPILED
from smartgo.store.tails import LogTail, PureLogTail
print(LogTail is PureLogTail, IS_COMPILED, CORE)
"""


class ChoiceTests(SynchronousTestCase):
    def test_all_or_none(self) -> None:
        """Either all classes are the compiled ones, or none is."""
        chosen = [LogTail is PureLogTail, QueueTail is PureQueueTail, SendRun is PureSendRun, Hub is PureHub]
        functions = [
            index_keys is pure_index_keys,
            pick_units is pure_pick_units,
            adjacent_units is pure_adjacent_units,
        ]
        functions.append(index_put is pure_index_put)
        self.assertEqual(chosen + functions, [not core.IS_COMPILED] * 8)
        self.assertTrue(issubclass(CommitLog, LogTail))
        self.assertTrue(issubclass(ConsumeQueue, QueueTail))
        self.assertEqual(core.IS_COMPILED, core.CORE == "compiled")

    def ask(self, environment: dict[str, str], before: str = "") -> str:
        """What another process chooses."""
        done = subprocess.run(
            [sys.executable, "-c", before + ASK],
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def test_asked_for(self) -> None:
        """SMARTGO_PURE=1 takes Python, whatever was compiled; 0 and nothing do not ask for it."""
        self.assertEqual(self.ask({"SMARTGO_PURE": "1"}), "True False Python, as SMARTGO_PURE asks")
        without = self.ask({"SMARTGO_PURE": ""})
        self.assertEqual(self.ask({"SMARTGO_PURE": "0"}), without)
        self.assertNotIn("asks", without)

    def test_not_compiled(self) -> None:
        """Without the compiled module there is Python, and it is said why."""
        for absent in (
            "import sys; sys.modules['smartgo._core.sends'] = None\n",
            "import smartgo._core; smartgo._core.__path__ = []\n",
        ):
            said = self.ask({"SMARTGO_PURE": "0"}, absent)
            self.assertEqual(said, "True False Python, without the compiled core: it was not compiled")

    def test_old(self) -> None:
        """A module that was compiled in a checkout before a source changed is not used; installed ones have none."""
        folder = self.mktemp()
        for name in ("sends.so", "sends.c", "sends.pyx", "bytes.h", "crc32.c"):
            path = os.path.join(folder, "core", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="ascii"):
                pass
            os.utime(path, (1000, 1000))
        before = (
            "import sys, types\n"
            "module = sys.modules['smartgo._core.sends'] = types.ModuleType('smartgo._core.sends')\n"
            f"module.__file__ = {os.path.join(os.path.abspath(folder), 'core', 'sends.so')!r}\n"
            "module.LogTail = module.QueueTail = object\n"
        )

        def said() -> str:
            return self.ask({"SMARTGO_PURE": "0"}, before)

        self.assertEqual(said(), "False True compiled")
        os.utime(os.path.join(folder, "core", "sends.c"), (1001, 1001))  # made from sends.pyx
        self.assertEqual(said(), "False True compiled")
        for name in ("sends.pyx", "bytes.h", "crc32.c"):
            os.utime(os.path.join(folder, "core", name), (1001, 1001))
            self.assertEqual(said(), "True False Python, without the compiled core: it is older than its source")
            os.utime(os.path.join(folder, "core", name), (1000, 1000))
        for name in ("bytes.h", "crc32.c"):
            os.utime(os.path.join(folder, "core", name), (1001, 1001))
        os.remove(os.path.join(folder, "core", "sends.pyx"))
        self.assertEqual(said(), "False True compiled")
