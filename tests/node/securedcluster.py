"""A registry and a broker with access control, over a L{FakeEnvironment}."""

from __future__ import annotations

from smartgo.broker.broker import Broker
from smartgo.config.loading import Surroundings, load
from smartgo.node.accesscontrol import access_service
from smartgo.node.broker import broker_security
from smartgo.node.process import client_tls, server_tls
from smartgo.node.registryserver import Registry
from smartgo.remoting.client import RemotingClient
from smartgo.schema.command import Command
from smartgo.schema.signature import AccessKey
from tests.broker.fakecluster import BROKER, REGISTRY, SMALL, Cluster
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of

FILE = "/home/test/conf/plain_acl.yml"
ADMIN, SENDER, STRANGER = (AccessKey(name, f"{name}-secret") for name in ("an-admin", "a-sender", "a-stranger"))
RULES = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- {accessKey: a-sender, secretKey: a-sender-secret, topicPerms: [orders=PUB]}
"""


def lay(env: FakeEnvironment, text: str) -> None:
    """Write the rules."""
    env.files.make_directories(FILE.rpartition("/")[0])
    env.files.replace(FILE, text.encode(), backup=False)


class SecuredCluster(Cluster):
    """
    A registry and a broker with access control, as their programs assemble them.

    @ivar signs: requests without a signature are signed with the broker's own key.
    """

    signs = False

    def __init__(self, env: FakeEnvironment | None = None, rules: str = RULES, **settings: str) -> None:
        self.env = env or FakeEnvironment()
        lay(self.env, rules)
        self.client = RemotingClient(self.env, sweeper_of(self.env.clock))
        surroundings = Surroundings("testhost", "/home/test", lambda name: None)
        flags = {**SMALL, "namesrvAddr": REGISTRY, "storePathRootDir": "/store", "aclEnable": "true", **settings}
        self.configuration = load(surroundings, flags=flags)
        self.sweeper = sweeper_of(self.env.clock, self.env.network.poller)
        access = access_service(self.env, self.configuration)
        assert access is not None
        self.access = access
        access.startService()
        tls = server_tls(self.env, self.configuration.tls)
        self.registry = Registry(self.env, self.configuration, self.sweeper, tls, access)
        self.registry.startService()
        dialling = client_tls(self.env, self.configuration.tls)
        security = broker_security(self.env, self.configuration, tls, dialling, access)
        self.service = Broker(self.env, self.configuration, self.sweeper, security)
        self.service.startService()
        self.pump()

    def ask(self, command: Command, address: str = BROKER) -> Command:
        """Ask, with the broker's own key where the request bears no signature."""
        if self.signs:
            self.access.key.sign_unsigned(command)
        return super().ask(command, address)

    def signed(self, key: AccessKey | None, command: Command, address: str = BROKER) -> tuple[int, str]:
        """Ask with a signature, over a connection of its own; return code and remark."""
        if key is not None:
            key.sign(command)
        self.client.hang_up(address, "the next caller is another one")
        self.pump()
        answer = self.ask(command, address)
        return answer.code, answer.remark or ""

    def stop(self) -> None:
        """Stop all."""
        super().stop()
        self.access.stopService()
