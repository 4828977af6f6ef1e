"""The API over memory: a node, its API, and a client that speaks HTTP to it byte by byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from twisted.internet.protocol import Factory as ClientFactory
from twisted.internet.protocol import Protocol

from smartgo.config.loading import Surroundings, load
from smartgo.node.accesscontrol import AccessService
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.service import Ops, OpsNetwork
from tests.broker.fakecluster import REGISTRY, Cluster
from tests.ops import fixedpages  # noqa: F401  # makes them once

PORT = 10913
_ROUNDS = 100
HOST = f"127.0.0.1:{PORT}"


class Answer(NamedTuple):
    """An answer of the API."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    content: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """The code of a problem."""
        return cast("str", self.json["code"])


class Line(Protocol):
    """One connection of a client."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = False

    def dataReceived(self, data: bytes) -> None:
        """Collect."""
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        """Note it."""
        self.closed = True


class Front:
    """
    An API before a cluster in memory.

    @ivar cluster: the cluster; C{cluster.env} is everybody's environment.
    @ivar ops: the API.
    """

    def __init__(
        self,
        cluster: Cluster | None = None,
        node: ILocalNode | None = None,
        address: str = "127.0.0.1",
        port: int = PORT,
        resources: Sequence[object] = (),
        access: AccessService | None = None,
        **settings: str,
    ) -> None:
        """
        @param access: the access control of the cluster, if it has any.
        @param settings: of the API, by their names in a file.
        """
        self.cluster = cluster or Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.env = self.cluster.env
        self._port = port
        surroundings = Surroundings("testhost", "/home/test", lambda name: None)
        flags = {"storePathRootDir": "/store", "opsRequestsPerSecond": "100000", **settings}
        self.config = load(surroundings, flags=flags).ops
        self.ops = Ops(
            self.env,
            self.config,
            OpsNetwork(
                (address, port),
                [REGISTRY],
                access_key=None if access is None else access.key,
                access=None if access is None else access.control,
            ),
            self.cluster.sweeper,
            node,
            resources=resources,
        )
        self.ops.startService()
        self.cluster.pump()

    def connect(self) -> Line:
        """Open a connection."""
        found: list[Line] = []
        self.env.network.connect("127.0.0.1", self._port, ClientFactory.forProtocol(Line), 1.0).addCallback(
            found.append
        )
        return found[0]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        token: str = "",
        seconds: float = 0.0,
    ) -> Answer:
        """
        Ask over a connection of its own.

        @param path: below C{/api/v1}, or a whole one where it begins with two slashes.
        @param body: what is sent as JSON; bytes as they are.
        @param headers: besides the usual ones; an empty value leaves one out.
        @param seconds: that may pass before the answer.
        """
        sent = {"Host": HOST, "Connection": "close"}
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        sent |= headers or {}
        target = path[1:] if path.startswith("//") else f"/api/v1{path}"
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items() if value)]
        return self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content, seconds)

    def raw(self, data: bytes, seconds: float = 0.0) -> Answer:
        """Send bytes over a connection of their own, and return the answer to them."""
        line = self.connect()
        cast("Any", line.transport).write(data)
        self.cluster.pump(seconds)
        for _ in range(_ROUNDS):  # a question may lead to others, one after another
            if line.closed:
                break
            self.cluster.pump()
        answer = parsed(line.received)
        cast("Any", line.transport).loseConnection()
        self.cluster.pump()
        return answer

    def get(self, path: str, **more: Any) -> Any:
        """Return the JSON of a GET that must succeed."""
        answer = self.ask("GET", path, **more)
        if answer.status != 200:
            raise AssertionError(f"{answer.status}: {answer.content!r}")
        return answer.json

    def admin(self) -> str:
        """Make a token for admin, and return it."""
        secret = self.ops.tokens.create("boss", ["admin"])[1]
        self.cluster.pump()
        return secret

    def stop(self) -> None:
        """Stop the API, then the cluster."""
        self.stop_api()
        self.cluster.stop()

    def stop_api(self) -> None:
        """Stop the API alone."""
        done: list[object] = []
        self.ops.stopService().addBoth(done.append)
        self.cluster.pump(3.0)
        if done != [None]:
            raise AssertionError(f"not stopped: {done}")


def parsed(data: bytes) -> Answer:
    """Read one answer, whole or by chunks."""
    head, found, content = data.partition(b"\r\n\r\n")
    if not found:
        raise AssertionError(f"no answer: {data!r}")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    if headers.get("transfer-encoding") == "chunked":
        content = _joined(content)
    return Answer(int(first.split(" ")[1]), headers, content)


def _joined(content: bytes) -> bytes:
    """The body of an answer that came in chunks."""
    whole = b""
    while content:
        size, _, content = content.partition(b"\r\n")
        whole += content[: int(size, 16)]
        content = content[int(size, 16) + 2 :]
    return whole
