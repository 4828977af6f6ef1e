"""
Brokers and registries as processes: ours and the real ones, started, stopped and killed alike.

C{SMARTGO_INTEROP_PEER=rocketmq} runs every test against the real broker and name server instead of ours: so the tests
themselves are checked.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.interop.certificates import Certificates
from tests.interop.driver import rocketmq_home
from tests.interop.jars import GENERATIONS, java_command
from tests.interop.namespaces import connect, enter
from tests.interop.process import Process

GET_BROKER_RUNTIME_INFO = 28
GET_BROKER_CLUSTER_INFO = 106
_ROOT = Path(__file__).resolve().parents[2]
_POLL = 0.02  # seconds between two looks at a port that does not answer yet

#: Small files, and the quick transaction checks of the golden stores. A real broker refuses what waited for longer than
#: waitTimeMillsInSendQueue, and everything while one message takes longer than osPageCacheBusyTimeOutMills: on a busy
#: machine both happen with the usual 200 ms and 1 s.
SETTINGS = {
    "autoCreateTopicEnable": "true",
    "autoCreateSubscriptionGroup": "true",
    "diskMaxUsedSpaceRatio": "95",
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": "120000",
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "osPageCacheBusyTimeOutMills": "60000",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "waitTimeMillsInSendQueue": "60000",
}


@dataclass(frozen=True)
class Plan:
    """
    The plan of a broker or a registry.

    @ivar port: a broker also takes the ports two below and one above.
    @ivar home: its folder for logs and generated files.
    @ivar store: a broker's store folder.
    @ivar registry: C{host:port} a broker registers with.
    @ivar settings: further properties, by RocketMQ's names.
    @ivar tls: with these, TLS is served.
    @ivar tls_mode: C{enforcing} or C{permissive}.
    @ivar host: the address to listen on and to be known by.
    @ivar network: the network namespace to run in; empty for the machine's own.
    @ivar environment: environment variables of the process, beside those that its kind needs.
    @ivar key: the access key and the secret that requests to it are signed with.
    """

    port: int
    home: str
    store: str = ""
    registry: str = ""
    name: str = "broker-a"
    cluster: str = "DefaultCluster"
    settings: Mapping[str, str] = field(default_factory=dict)
    tls: Certificates | None = None
    tls_mode: str = "enforcing"
    host: str = "127.0.0.1"
    network: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, str] | None = None

    @property
    def address(self) -> str:
        """C{host:port} as clients see it."""
        return f"{self.host}:{self.port}"

    def tls_settings(self) -> dict[str, str]:
        """Return the TLS properties, the same for either peer; empty without TLS."""
        if self.tls is None:
            return {}
        return {
            "tls.server.mode": self.tls_mode,
            "tls.server.certPath": self.tls.certificate,
            "tls.server.keyPath": self.tls.key,
            "tls.enable": "true",
            "tls.client.trustCertPath": self.tls.authority,
        }


class Node:
    """
    One broker or registry, which can be started again after its end.

    @ivar boot: seconds from the last start until the first answer.
    @ivar boot_cpu: seconds of processor time that the process itself took until then, however busy the machine is.
    """

    kind = "node"
    start_limit = 120.0  # seconds
    stop_limit = 12.0  # reliability D14 allows ours 10
    ready_code = GET_BROKER_RUNTIME_INFO

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.boot = 0.0
        self.boot_cpu = 0.0
        self.ready_at = 0.0
        self._process: Process | None = None

    def command(self) -> list[str]:
        """Return the command line, having written the files it names."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """Return what is added to the environment."""
        return {}

    @property
    def address(self) -> str:
        """C{host:port} as clients see it."""
        return self.plan.address

    @property
    def pid(self) -> int:
        """The process's id; it must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Tell whether the process is there."""
        return self._process is not None and self._process.returncode is None

    def start(self) -> float:
        """
        Start the process and return the seconds until it first answered a request with code 0.

        @raise ProcessFailed: it ended, or did not answer in time.
        """
        os.makedirs(self.plan.home, exist_ok=True)
        command = [*enter(self.plan.network), *self.command()]
        begin = time.monotonic()
        environment = {**self.environment(), **self.plan.environment}
        self._process = Process(f"{self.kind}-{self.plan.port}", command, self.plan.home, environment)
        self._process.wait_until(self._answers, self.start_limit, "its first answer", recheck=_POLL)
        self.boot = time.monotonic() - begin
        self.boot_cpu = _processor_seconds(self._process.pid)
        self.ready_at = time.time()
        return self.boot

    def stop(self) -> int:
        """
        End the process by SIGTERM and return its exit code.

        @raise ProcessFailed: it did not end in time.
        """
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait_ended(self.stop_limit)

    def wait_ended(self, timeout: float) -> int:
        """Wait until the process has ended by itself and return its exit code. @raise ProcessFailed: it still runs."""
        assert self._process is not None
        return self._process.wait_ended(timeout)

    def kill(self) -> None:
        """End the process by SIGKILL."""
        assert self._process is not None
        self._process.kill()

    def end(self) -> None:
        """Leave nothing running, whatever state it is in; for clean-up."""
        if self.running:
            self.kill()

    def wait_registered(self, broker: Node) -> None:
        """Wait until this registry tells clients of C{broker}."""
        assert self._process is not None
        self._process.wait_until(
            lambda: broker.address.encode() in (ask(self.plan, GET_BROKER_CLUSTER_INFO) or b""),
            60,
            f"the registration of {broker.address}",
            recheck=_POLL,
        )

    def tail(self) -> str:
        """Return the process's last lines."""
        return "" if self._process is None else self._process.tail

    def _answers(self) -> bool:
        return ask(self.plan, self.ready_code) is not None

    def _properties(self, name: str, settings: Mapping[str, str]) -> str:
        path = os.path.join(self.plan.home, name)
        with open(path, "w") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())
        return path


class _Smartgo(Node):
    """Ours, through the command a user has."""

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(_ROOT), "SMARTGO_HOME": self.plan.home, "PYTHONUNBUFFERED": "1"}

    def _twist(self, plugin: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "twisted", plugin, *arguments]

    def _listen(self) -> str:
        return f"tcp:{self.plan.port}:interface={self.plan.host}"


class SmartgoRegistry(_Smartgo):
    """C{twist smartgo-registry}."""

    kind = "smartgo-registry"
    ready_code = GET_BROKER_CLUSTER_INFO

    def command(self) -> list[str]:
        table = {"kvConfigPath": os.path.join(self.plan.home, "kvConfig.json")}
        settings = {**table, **self.plan.settings, **self.plan.tls_settings()}
        config = self._properties(f"registry-{self.plan.port}.conf", settings)
        return self._twist("smartgo-registry", "--config", config, "--listen", self._listen())


class SmartgoBroker(_Smartgo):
    """C{twist smartgo-broker}."""

    kind = "smartgo-broker"
    command_name = "smartgo-broker"

    def command(self) -> list[str]:
        plan = self.plan
        settings = {
            "brokerName": plan.name,
            "brokerClusterName": plan.cluster,
            "brokerIP1": plan.host,
            "brokerIP2": plan.host,
            **SETTINGS,
            **plan.settings,
            **plan.tls_settings(),
        }
        config = self._properties(f"{plan.name}-{plan.port}.conf", settings)
        where = ["--listen", self._listen(), "--store", plan.store, "--registry", plan.registry]
        return self._twist(self.command_name, "--config", config, *where)


class SmartgoSlave(SmartgoBroker):
    """C{twist smartgo-slave}."""

    kind = "smartgo-slave"
    command_name = "smartgo-slave"


class _Rocketmq(Node):
    """The real one, 4.9.7."""

    generation = GENERATIONS["4.9"]

    def environment(self) -> dict[str, str]:
        return {"ROCKETMQ_HOME": rocketmq_home(self.plan.home)}

    def _java(self, flags: list[str], main: str, *arguments: str) -> list[str]:
        # user.home is where default paths of the jars begin
        flags = [*flags, f"-Duser.home={self.plan.home}", f"-DlogRoot={self.plan.home}"]
        if self.plan.tls is not None:
            settings = {**self.plan.tls_settings(), "tls.test.mode.enable": "false", "tls.client.authServer": "true"}
            file = self._properties(f"tls-{self.plan.port}.properties", settings)
            mode = f"-Dtls.server.mode={self.plan.tls_mode}"
            flags += [mode, "-Dtls.enable=true", "-Dtls.test.mode.enable=false", f"-Dtls.config.file={file}"]
        return [*java_command(*flags, "-cp", f"{self.generation.jars}/*"), main, *arguments]


class RocketmqRegistry(_Rocketmq):
    """The real name server."""

    kind = "rocketmq-namesrv"
    ready_code = GET_BROKER_CLUSTER_INFO

    def command(self) -> list[str]:
        config = self._properties(f"namesrv-{self.plan.port}.properties", {"listenPort": str(self.plan.port)})
        flags = ["-Xms32m", "-Xmx96m", "-XX:MaxDirectMemorySize=64m", "-XX:TieredStopAtLevel=1"]
        return self._java(flags, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", config)


class RocketmqBroker(_Rocketmq):
    """The real broker."""

    kind = "rocketmq-broker"
    stop_limit = 40.0

    def command(self) -> list[str]:
        plan = self.plan
        settings = {
            "brokerClusterName": plan.cluster,
            "brokerName": plan.name,
            "brokerId": "0",
            "listenPort": str(plan.port),
            "haListenPort": str(plan.port + 1),
            "brokerIP1": plan.host,
            "brokerIP2": plan.host,
            "namesrvAddr": plan.registry,
            "storePathRootDir": plan.store,
            "storePathCommitLog": os.path.join(plan.store, "commitlog"),
            **SETTINGS,
            **plan.settings,
        }
        config = self._properties(f"{plan.name}-{plan.port}.properties", settings)
        flags = ["-Xms96m", "-Xmx384m", "-XX:MaxDirectMemorySize=384m", "-XX:TieredStopAtLevel=1"]
        return self._java(flags, "org.apache.rocketmq.broker.BrokerStartup", "-c", config)


@dataclass(frozen=True)
class Peer:
    """
    One implementation of both roles.

    @ivar restart_limit: seconds a broker may take to answer after a kill.
    """

    name: str
    registry: type[Node]
    broker: type[Node]
    slave: type[Node]
    restart_limit: float


SMARTGO = Peer("smartgo", SmartgoRegistry, SmartgoBroker, SmartgoSlave, restart_limit=5.0)
ROCKETMQ = Peer("rocketmq", RocketmqRegistry, RocketmqBroker, RocketmqBroker, restart_limit=30.0)


def chosen() -> Peer:
    """Return the peer under test."""
    return {"smartgo": SMARTGO, "rocketmq": ROCKETMQ}[os.environ.get("SMARTGO_INTEROP_PEER", "smartgo")]


def ask(
    plan: Plan, code: int, fields: Mapping[str, str] | None = None, content: bytes = b"", seconds: float = 10.0
) -> bytes | None:
    """Send one request and return the body of its answer; C{None} as of L{answer}, and when the answer is an error."""
    told = answer(plan, code, fields, content, seconds)
    return told.body if told is not None and told.code == 0 else None


class Answer(NamedTuple):
    """An answer: its code, its fields, and its body."""

    code: int
    fields: dict[str, str]
    body: bytes


def answer(
    plan: Plan, code: int, fields: Mapping[str, str] | None = None, content: bytes = b"", seconds: float = 10.0
) -> Answer | None:
    """
    Send one request and return its answer; C{None} when nobody listens, or there is no answer
    in time. Written by hand: it must not depend on what is tested.
    """
    told = {
        "code": code,
        "flag": 0,
        "language": "PYTHON",
        "opaque": 1,
        "version": 409,
        "extFields": _signed(plan, fields, content),
    }
    header = json.dumps(told).encode()
    length = 4 + len(header) + len(content)
    frame = length.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + content
    try:
        with connect(plan.network, (plan.host, plan.port), seconds) as plain:
            plain.settimeout(seconds)
            if plan.tls is None:
                return _exchange(plain, frame)
            context = ssl.create_default_context(cafile=plan.tls.authority)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                return _exchange(secure, frame)
    except OSError:
        return None


def _signed(plan: Plan, fields: Mapping[str, str] | None, content: bytes) -> dict[str, str]:
    """Return the fields of a request, signed where there is a key."""
    told = dict(fields or {})
    if plan.key is not None:
        told["AccessKey"] = plan.key[0]
        text = "".join(told[name] for name in sorted(told)).encode() + content
        told["Signature"] = base64.b64encode(hmac.digest(plan.key[1].encode(), text, "sha1")).decode()
    return told


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its threads, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _exchange(connection: socket.socket, frame: bytes) -> Answer | None:
    connection.sendall(frame)
    with connection.makefile("rb") as stream:
        total = int.from_bytes(stream.read(4), "big")
        header = stream.read(int.from_bytes(stream.read(4), "big") & 0xFFFFFF)
        body = stream.read(max(total - 4 - len(header), 0))
    if not header:
        return None
    read = json.loads(header)
    return Answer(int(read["code"]), read.get("extFields") or {}, body)
