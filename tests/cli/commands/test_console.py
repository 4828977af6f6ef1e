"""The command that prints a login link."""

from __future__ import annotations

from tests.cli.support.test_rest import RestCase
from tests.ops.front import PORT


class ConsoleTests(RestCase):
    def test_link(self) -> None:
        """The link logs in as admin, once."""
        result = self.invoke("console")
        url = result.stdout.strip()
        self.assertTrue(url.startswith(f"http://127.0.0.1:{PORT}/#login="), url)
        self.assertIn("works once, until ", result.stderr)
        code = url.partition("#login=")[2]
        answer = self.front.ask("POST", "/session", {"code": code})
        self.assertEqual((answer.status, answer.json["scopes"]), (200, ["admin"]))
        self.assertEqual(self.front.ask("POST", "/session", {"code": code}).status, 401)
        self.assertIn("#login=", self.json("console")["url"])

    def test_no_token(self) -> None:
        """Without a token the command says how to give one; it finds that of dev."""
        del self.env.host.variables["SMARTGO_TOKEN"]
        self.assertIn("give a token with SMARTGO_TOKEN or --token-file", self.refused("console", status=77))
        self.env.files.make_directories("./smartgo-data")
        path = f"./smartgo-data/cli-{PORT}.token"
        self.env.files.create(path, self.front.ops.tokens.make_local().encode())
        self.assertIn("#login=", self.out("console"))
        self.front.ops.tokens.make_local()
        self.assertIn(f"{path}, which an earlier smartgo dev left", self.refused("console", status=77))
