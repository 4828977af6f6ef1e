"""Client certificates as accounts of access control: a registry and a broker over TLS."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.processors.send import SendProcessor
from smartgo.core import CORE, IS_COMPILED
from smartgo.net.tls import ClientTLS
from smartgo.node.accesscontrol import PERIOD
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.headers.transaction import EndTransactionRequest
from smartgo.schema.message import parse_message_id
from smartgo.schema.signature import AccessKey
from tests.broker.fakecluster import BROKER, REGISTRY, pull_command, send_command
from tests.fakes import FakeEnvironment
from tests.node.securedcluster import ADMIN, SENDER, SecuredCluster, lay
from tests.remoting.certificates import Authority, place
from tests.remoting.doubles import sweeper_of

AUTHORITY = Authority()
RULES = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- {accessKey: a-sender, secretKey: a-sender-secret, topicPerms: [other=PUB]}
- accessKey: the-orders
  secretKey: the-orders-secret
  certificate: CN=orders
  topicPerms: [orders=PUB|SUB]
  groupPerms: [CG=SUB]
- {accessKey: operator, secretKey: operator-secret, certificate: "URI:spiffe://example.com/operator", admin: true}
"""


class CertificateAccountTests(SynchronousTestCase):
    """Requests over connections with client certificates."""

    def setUp(self) -> None:
        """Count what is taken in runs: for each call how many frames."""
        self.taken: list[int] = []
        take = SendProcessor.take

        def counted(processor: SendProcessor, *arguments: Any) -> int:
            self.taken.append(take(processor, *arguments))
            return self.taken[-1]

        self.patch(SendProcessor, "take", counted)
        self.env = FakeEnvironment()
        place(self.env.files, "/ca.pem", AUTHORITY.pem)
        for name, *others in (
            ("server", "127.0.0.1"), ("orders",), ("billing",), ("operator", "spiffe://example.com/operator"),
        ):  # fmt: skip
            certificate, key = AUTHORITY.issue(name, *others)
            place(self.env.files, f"/{name}.pem", certificate)
            place(self.env.files, f"/{name}.key", key)
        settings = {
            "tls.server.certPath": "/server.pem", "tls.server.keyPath": "/server.key",
            "tls.server.trustCertPath": "/ca.pem", "tls.server.need.client.auth": "optional", "tls.enable": "true",
            "tls.client.trustCertPath": "/ca.pem",
        }  # fmt: skip
        self.cluster = SecuredCluster(self.env, RULES, **settings)
        self.addCleanup(self.cluster.stop)
        for topic in ("orders", "other"):
            self.assertEqual(self.ask("", send_command(topic), ADMIN), (0, ""))

    def client(self, name: str) -> RemotingClient:
        """Return a client with a certificate, or without where the name is empty, in the place of the cluster's own."""
        own = (f"/{name}.pem", f"/{name}.key") if name else (None, None)
        stopped: list[object] = []
        self.cluster.client.stop().addBoth(stopped.append)
        self.cluster.pump()
        security = CallSecurity(ClientTLS(self.env, "/ca.pem", *own))
        self.cluster.client = RemotingClient(self.env, sweeper_of(self.env.clock), security=security)
        return self.cluster.client

    def ask(self, name: str, command: Command, key: AccessKey | None = None, address: str = BROKER) -> tuple[int, str]:
        """Ask with a certificate and a signature, or without; return code and remark."""
        if key is not None:
            key.sign(command)
        self.client(name)
        answer = self.cluster.ask(command, address)
        return answer.code, answer.remark or ""

    def refused(self, said: str, *asked: Any) -> None:
        """Check that a request is refused with 1 and a remark."""
        code, remark = self.ask(*asked)
        self.assertEqual((code, said in remark), (1, True), remark)

    def test_sends(self) -> None:
        """An unsigned send has the rights of the certificate's account; a signed one is judged by its signature."""
        self.assertEqual(self.ask("orders", send_command("orders")), (0, ""))
        self.refused("No permission for topic other", "orders", send_command("other"))
        self.assertEqual(self.ask("orders", send_command("other"), SENDER), (0, ""))
        self.refused("No permission for topic orders", "orders", send_command("orders"), SENDER)
        self.refused("Check signature failed", "orders", send_command("orders"), AccessKey("an-admin", "a-wrong-one"))
        said = "No accessKey is configured, and no account names the certificate DNS:billing or CN=billing"
        self.refused(said, "billing", send_command("orders"))
        self.refused("No accessKey is configured", "", send_command("orders"))

    def test_registry(self) -> None:
        """A registry knows the certificates, too."""
        fields = {"namespace": "N", "key": "k", "value": "v"}
        self.assertEqual(
            self.ask("operator", Command.request(RequestCode.PUT_KV_CONFIG, fields=fields), None, REGISTRY), (0, "")
        )
        self.refused("Need admin", "orders", Command.request(RequestCode.PUT_KV_CONFIG, fields=fields), None, REGISTRY)
        asked = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic="TBW102"))
        self.assertEqual(self.ask("orders", asked, None, REGISTRY), (0, ""))

    def test_runs(self) -> None:
        """The compiled core takes unsigned sends of an account, and no other unsigned ones."""
        if not IS_COMPILED:
            self.skipTest(f"the core is {CORE}")
        self.assertEqual(self.ask("orders", send_command("orders"))[0], 0)
        for name, topic, code, taken in (
            ("orders", "orders", 0, [1]), ("orders", "other", 1, [0]), ("billing", "orders", 1, [0]),
            ("", "orders", 1, [0]), ("orders", "orders", 0, [1]),
        ):  # fmt: skip
            self.taken.clear()
            self.assertEqual(self.ask(name, send_command(topic))[0], code)
            self.assertEqual(self.taken, taken, (name, topic))

    def test_unnamed_resources(self) -> None:
        """What a request does not name itself is checked by the account of the certificate."""
        sent = {}
        for topic in ("orders", "other"):
            command = send_command(topic, properties={"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"}, sys_flag=4)
            ADMIN.sign(command)
            self.client("")
            sent[topic] = self.cluster.ask(command).read(SendResponse)

        def commit(topic: str) -> Command:
            found = sent[topic]
            header = EndTransactionRequest(
                producer_group="PG",
                tran_state_table_offset=found.queue_offset,
                commit_log_offset=parse_message_id(found.msg_id)[1],
                commit_or_rollback=8,
                msg_id="U",
                topic="orders",
            )
            return Command.request(RequestCode.END_TRANSACTION, header)

        self.assertEqual(self.ask("orders", commit("orders")), (0, ""))
        self.refused("No permission for topic other", "orders", commit("other"))
        self.client("")
        other = send_command("other")
        ADMIN.sign(other)
        offset = parse_message_id(self.cluster.ask(other).read(SendResponse).msg_id)[1]
        back = SendBackRequest(offset=offset, group="CG", delay_level=0, origin_topic="orders")
        self.refused("No permission for topic other", "orders", Command.request(36, back))

    def test_users(self) -> None:
        """An administrator without limits is one by its certificate as well; what it changes is logged by its name."""
        body = b'{"password": "x", "userType": "Super"}'
        command = Command.request(RequestCode.AUTH_CREATE_USER, body=body, fields={"username": "root"})
        self.client("operator")
        answers: list[Any] = []
        self.cluster.client.ask(BROKER, command, 3.0).addBoth(answers.append)
        self.cluster.pump(0.2)
        self.assertEqual((answers[0].code, answers[0].remark), (0, None))

    def test_held(self) -> None:
        """A pull that waits is refused when it wakes after its certificate was struck off."""
        self.assertEqual(self.ask("orders", pull_command("orders"))[0], 0)
        self.client("orders")
        for rules, code in ((RULES, 0), (RULES.replace("CN=orders", "CN=former"), 1)):
            lay(self.env, RULES)
            self.cluster.pump(2 * PERIOD)
            end = self.cluster.broker.store.bounds("orders", 0)[1]
            answers: list[Any] = []
            held = pull_command("orders", 0, end, sys_flag=6, suspend_timeout_millis=15_000)
            self.cluster.client.ask(BROKER, held, 20.0).addBoth(answers.append)
            self.cluster.pump()
            self.assertEqual(answers, [])
            lay(self.env, rules)
            self.cluster.pump(2 * PERIOD)
            waiting, self.cluster.client = (
                self.cluster.client,
                RemotingClient(
                    self.env, sweeper_of(self.env.clock), security=CallSecurity(ClientTLS(self.env, "/ca.pem"))
                ),
            )
            command = send_command("orders")
            ADMIN.sign(command)
            self.assertEqual(self.cluster.ask(command).code, 0)
            self.cluster.pump(1)
            self.assertEqual([one.code for one in answers], [code], answers)
            stopped: list[object] = []
            self.cluster.client.stop().addBoth(stopped.append)
            self.cluster.client = waiting
