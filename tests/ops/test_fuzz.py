"""
Schema-driven fuzz of a live node (reliability F25): no 5xx, no code, type or body that the document does not name.

C{SMARTGO_FUZZ_EXAMPLES} and C{SMARTGO_FUZZ_SECONDS} make it longer.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from typing import Any

from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import TestCase

from tests.ops.live import TOKEN, Live

EXAMPLES = os.environ.get("SMARTGO_FUZZ_EXAMPLES", "4")
SECONDS = os.environ.get("SMARTGO_FUZZ_SECONDS", "20")

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method"
)
ENDLESS = "/(events|tail)$"
"""Answers that go on until the client leaves."""


def program() -> str | None:
    """Return the path of schemathesis, beside this Python or on the path."""
    return shutil.which("schemathesis", path=os.path.dirname(sys.executable)) or shutil.which("schemathesis")


class FuzzTests(TestCase):
    """Requests made from the OpenAPI document."""

    timeout = 600 + 2 * int(SECONDS)
    if program() is None:
        skip = "schemathesis is not installed"

    async def run_with(self, live: Live, *options: str) -> tuple[str, int]:
        """Let schemathesis loose on a node; return what it says, and its status."""
        arguments = [
            "run", f"{live.url}/openapi.json", "--checks", CHECKS, "-n", EXAMPLES, "--max-time", SECONDS,
            "--seed", "1", "--warnings", "off", "--no-color", *options,
        ]  # fmt: skip
        found: Any = await getProcessOutputAndValue(
            str(program()), arguments, {**os.environ, "NO_COLOR": "1"}, self.mktemp_folder()
        )
        output, errors, status = found
        return (output + errors).decode(errors="replace"), status

    def mktemp_folder(self) -> str:
        """A folder for what schemathesis leaves behind."""
        folder: str = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        return folder

    async def test_admin(self) -> None:
        """With every right."""
        live = Live(self.mktemp_folder())
        try:
            await live.start()
            text, status = await self.run_with(
                live, "-H", f"Authorization: Bearer {TOKEN}", "--exclude-path-regex", f"{ENDLESS}|/session$"
            )
        finally:
            await live.stop()
        self.assertEqual(status, 0, text[-6000:])
        cases = re.search(r"(\d+) generated", text)
        assert cases is not None
        self.assertGreater(int(cases[1]), 50, "the fuzz must have happened")

    async def test_nobody(self) -> None:
        """Without any."""
        live = Live(self.mktemp_folder())
        try:
            await live.start()
            text, status = await self.run_with(live, "--exclude-path-regex", ENDLESS, "--phases", "coverage,fuzzing")
        finally:
            await live.stop()
        self.assertEqual(status, 0, text[-6000:])
