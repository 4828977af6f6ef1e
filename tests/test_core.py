"""The choice between the compiled core and Python."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from smartgo import core
from smartgo.broker.sendrun import PureSendRun, SendRun
from smartgo.store.commitlog import CommitLog
from smartgo.store.queues.file import ConsumeQueue
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
        chosen = [LogTail is PureLogTail, QueueTail is PureQueueTail, SendRun is PureSendRun]
        self.assertEqual(chosen, [not core.IS_COMPILED] * 3)
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
