"""The token that dev leaves for commands."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.localtoken import LocalToken, find_token
from smartgo.errors import SettingError
from tests.fakes import FakeEnvironment
from tests.ops.front import PORT, Front


class LocalTokenTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A front."""
        self.front = Front()
        self.addCleanup(self.front.stop)
        self.env: FakeEnvironment = self.front.env
        self.env.files.make_directories("./smartgo-data")

    def test_life(self) -> None:
        """The file has a token of the process, replaces that of an earlier one, and goes when the process ends."""
        self.env.files.create(f"./smartgo-data/cli-{PORT}.token", b"stale")
        token = LocalToken(self.env, "./smartgo-data", self.front.ops)
        found = find_token(self.env, f"http://localhost:{PORT}")
        assert found is not None
        secret, path = found
        self.assertEqual(path, token.path)
        self.assertEqual(self.front.ask("GET", "/tokens", token=secret).status, 200)
        token.remove()
        token.remove()
        self.assertIsNone(find_token(self.env, f"http://localhost:{PORT}"))

    def test_elsewhere(self) -> None:
        """The token is sent to no other machine, and to no other port."""
        LocalToken(self.env, "./smartgo-data", self.front.ops)
        for url in (
            f"http://10.0.0.1:{PORT}",
            f"http://example.com:{PORT}",
            f"http://127.0.0.1:{PORT + 1}",
            "http://h:x",
        ):
            self.assertIsNone(find_token(self.env, url), url)

    def test_command(self) -> None:
        """The command for another link names what it would not find by itself."""
        data = os.path.abspath("./smartgo-data")
        self.env.files.make_directories(data)
        here = LocalToken(self.env, data, self.front.ops)
        self.assertEqual(here.command(), "smartgo console")
        self.env.files.make_directories("/d")
        there = LocalToken(self.env, "/d", self.front.ops)
        self.assertEqual(there.command(), f"smartgo console --token-file /d/cli-{PORT}.token")

    def test_unwritable(self) -> None:
        """A file that cannot be written is an error of one sentence."""
        error = self.assertRaises(SettingError, LocalToken, self.env, "/nowhere", self.front.ops)
        self.assertIn("/nowhere/cli-10913.token: ", str(error))
