"""Commands over the REST API of a process with access control, with accounts."""

from __future__ import annotations

from smartgo.cli.support.rest import RestOptions
from smartgo.node.ops import LocalNode
from smartgo.ops.security.requestguard import FAILURE_SECONDS
from tests.cli.case import CommandCase
from tests.node.securedcluster import SecuredCluster
from tests.ops.front import PORT, Front

RULES = """
accounts:
- {accessKey: an-admin, secretKey: "a:secret with ä", admin: true}
- {accessKey: a-reader, secretKey: a-reader-secret, topicPerms: [orders=SUB]}
"""
SECRET = "a:secret with ä"
ADMIN_FILE, READER_FILE, WRONG_FILE = "/admin.yml", "/reader.yml", "/wrong.yml"
VARIABLE = "SMARTGO_ACCESS_KEY_FILE"


class AccountTests(CommandCase):
    """The account that commands show the API."""

    def setUp(self) -> None:
        """A registry, a broker and their API, with access control and without tokens."""
        super().setUp()
        self.cluster = SecuredCluster(self.env, RULES)
        self.addCleanup(self.cluster.stop)
        node = LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        self.front = Front(self.cluster, node, access=self.cluster.access)
        self.addCleanup(self.front.stop_api)
        for path, key, secret in (
            (ADMIN_FILE, "an-admin", SECRET), (READER_FILE, "a-reader", "a-reader-secret"),
            (WRONG_FILE, "an-admin", "a-wrong-secret"),
        ):  # fmt: skip
            self.env.files.create(path, f'accessKey: {key}\nsecretKey: "{secret}"\n'.encode())

    def pump(self) -> None:
        """Let bytes and time pass."""
        self.cluster.pump(0.1)

    def test_option(self) -> None:
        """The option names the account, for commands of the API alone and for those that ask the cluster too."""
        self.assertIn("#login=", self.out("console", "--access-key-file", ADMIN_FILE))
        self.out("config", "set", "brokerPermission=4", "--api", f"http://127.0.0.1:{PORT}", "--yes",
                 "--access-key-file", ADMIN_FILE)  # fmt: skip
        self.assertIn("account an-admin", self.out("config", "history", "--access-key-file", ADMIN_FILE))
        listed = self.invoke("cluster", "ls", "--access-key-file", ADMIN_FILE)
        self.assertIn("broker-a", listed.stdout)
        self.assertNotIn("401", listed.stderr)
        self.assertNotIn("login", listed.stderr)

    def test_variable(self) -> None:
        """So does the variable, after the option and after a token."""
        self.env.host.variables[VARIABLE] = ADMIN_FILE
        self.assertIn("#login=", self.out("console"))
        refused = self.refused("console", "--access-key-file", READER_FILE, status=77)
        self.assertIn("account a-reader is no administrator without limits", refused)
        self.env.host.variables["SMARTGO_TOKEN"] = "sgo_of-nobody"
        self.assertIn("the token is not valid", self.refused("console", status=77))
        self.assertIn("#login=", self.out("console", "--access-key-file", ADMIN_FILE))

    def test_local(self) -> None:
        """The token that C{smartgo dev} left for the port comes before the variable's account."""
        self.env.files.make_directories("./smartgo-data")
        self.env.files.create(f"./smartgo-data/cli-{PORT}.token", self.front.ops.tokens.make_local().encode())
        self.env.host.variables[VARIABLE] = WRONG_FILE
        self.assertIn("#login=", self.out("console"))

    def test_wrong(self) -> None:
        """A wrong secret ends with 77 and the file to look at, a file without a key with 78, no file with a hint."""
        refused = self.refused("console", "--access-key-file", WRONG_FILE, status=77)
        self.assertIn(f"key and secret are not valid; look at {WRONG_FILE}", refused)
        self.assertNotIn("a-wrong-secret", refused)
        self.cluster.pump(FAILURE_SECONDS)
        self.refused("console", "--access-key-file", "/nothing.yml", status=78)
        self.assertIn(f"an account with {VARIABLE} or --access-key-file", self.refused("console", status=77))

    def test_unencrypted(self) -> None:
        """The secret is not sent to another machine without TLS, nor to an address that nobody named."""
        options = RestOptions("http://10.0.0.1:10913", None, None, ADMIN_FILE)
        api = options.api(self.env)
        self.assertIn("the account is not shown to http://10.0.0.1:10913: use https", api._hint(401))
        self.assertEqual(api._shown.authorization, "")
        secure = RestOptions("https://10.0.0.1:10913", None, None, ADMIN_FILE).api(self.env)
        self.assertTrue(secure._shown.authorization.startswith("Basic "))
        self.env.host.variables[VARIABLE] = ADMIN_FILE
        (beside,) = RestOptions(None, None, None, ADMIN_FILE).beside(self.env, ["127.0.0.1:22911"])
        self.assertEqual(beside._shown.authorization, "")
