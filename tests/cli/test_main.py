"""The whole command line: help, JSON output and exit status of every command."""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import click
import msgspec
import yaml
from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.processors import requestprocessors
from smartgo.broker.processors.brokeradmin import BrokerAdmin
from smartgo.broker.settings.changes import Who
from smartgo.cli.main import cli
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.health.snapshot import ClusterSnapshot
from smartgo.node.ops import LocalNode
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.topics import TRACE_TOPIC
from tests.broker.fakecluster import REGISTRY
from tests.broker.halves import given_up, send_half
from tests.cli.case import ROOT, ClusterCase, smartgo
from tests.fakes import EPOCH_MS
from tests.golden_store import read
from tests.ops.alerts.receivers import HttpReceiver
from tests.ops.front import Front
from tests.ops.resources.test_trace import sent as traced

ID = "0" * 32
NOBODY = "127.0.0.1:1"

COMMANDS = {
    "send": "Orders hello",
    "consume": "Orders --from first --count 1 --group reader",
    "topic ls": "",
    "topic show": "Orders",
    "topic stats": "Orders",
    "topic route": "Orders",
    "topic groups": "Orders",
    "topic create": "New",
    "topic set": "Orders --queues 3",
    "topic empty": "Spare --yes --plans /",
    "topic rm": "Spare --yes",
    "group ls": "",
    "group lag": "audit",
    "group members": "audit",
    "group info": "audit {client}",
    "group show": "audit",
    "group create": "new",
    "group set": "audit --retries 3",
    "group rm": "idle --yes",
    "group reset": "idle Orders --to latest --create --yes --plan /a.json",
    "group undo": "/kept.json --yes",
    "group clone": "audit idle Orders --yes --plan /b.json",
    "msg search": "Orders --key k0",
    "msg show": f"{ID} --topic Orders",
    "msg track": f"{ID} --topic Orders",
    "msg trace": f"{1:032X}",
    "msg tail": "Orders --from -1 --count 1",
    "msg export": "Orders",
    "msg resend": f"{ID} --topic Orders --yes",
    "msg recall": RecallHandle("Orders", "broker-a", str(EPOCH_MS + 3_600_000), ID).format(),
    "msg push": f"{ID} --topic Orders --group audit --client {{client}} --yes",
    "dlq ls": "",
    "dlq show": "audit",
    "dlq export": "audit",
    "dlq resend": "audit --all --yes",
    "dlq ack": "audit --all --yes",
    "tx ls": "",
    "tx show": "TX1",
    "tx resume": "TX2",
    "client close": "guest --yes",
    "client ls": "",
    "client show": "{client}",
    "cluster forget": "broker-x --yes",
    "cluster ls": "",
    "cluster show": "broker-a",
    "cluster stats": "TOPIC_PUT_NUMS Orders",
    "cluster drain": "broker-a --yes --ignore idle --ignore reader --ignore bencher",
    "cluster backup": "broker-a",
    "cluster stop-writes": "broker-a --yes",
    "cluster start-writes": "broker-a",
    "cluster export": "",
    "cluster import": "/definitions.json --yes",
    "cluster clean": "topics broker-a --yes",
    "cluster scrub": "status",
    "cluster tidy": "--yes",
    "config show": "broker-a",
    "config set": "broker-a brokerPermission=6 --dry-run",
    "config check": "/broker.conf",
    "config describe": "flushDiskType",
    "config history": "",
    "config undo": "1 --dry-run",
    "console": "",
    "alert list": "",
    "alert history": "",
    "alert rules": "",
    "alert silence": "disk-full",
    "alert end": "1",
    "alert receivers": "",
    "alert test": "team",
    "acl test": "somebody SEND_MESSAGE_V2 --topic Orders --directory /conf",
    "kv ls": "N",
    "kv get": "N k",
    "kv put": "N k2 v2",
    "kv rm": "N k --yes",
    "context ls": "",
    "context show": "",
    "context use": "here",
    "context set": "there",
    "context rm": "here",
    "top": "--samples 1",
    "bench send": "Orders -n 10",
    "bench consume": "Orders -n 10 --group bencher",
    "bench trip": "Orders -n 5",
    "doctor": "",
    "check": "/golden --set maxHashSlotNum=100 --set maxIndexNum=400",
    "store ls": "/golden",
    "store verify": "/golden",
    "store dump": "/golden --topic Order",
    "store hexdump": "/golden record 0",
    "store repair": "/golden --dry-run",
    "store export": "/golden jsonl --file /exported",
    "store diff": "/golden /golden",
    "store retention": "/golden --dry-run",
}
"""All commands with what they need, but for those that run a node or print a script."""

ELSEWHERE = {"demo", "dev", "completion"}


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        elif command is not None:
            yield " ".join((*path, name)), command


class EveryTests(ClusterCase):
    def setUp(self) -> None:
        """A cluster with something of everything."""

        def changeable(*args: Any, **kwargs: Any) -> BrokerAdmin:  # for config set
            return BrokerAdmin(*args, **{**kwargs, "remote_config": True})

        self.patch(requestprocessors, "BrokerAdmin", changeable)
        super().setUp()
        for name in ("Orders", "Spare"):
            self.out("topic", "create", name, "-n", "1")
        for number in range(12):
            found = {"KEYS": f"k{number}", "UNIQ_KEY": f"{number:032X}"}
            self.cluster.send("Orders", b"body %d" % number, properties=found)
        for name in ("audit", "idle"):
            self.out("group", "create", name)
        self.cluster.pump(1.0)
        client = Client(self.env, REGISTRY, instance="member")
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(client.stop)
        self.client_id = client.id
        consumer = PushConsumer(client, "audit", lambda messages: None)
        consumer.subscribe("Orders")
        consumer.start()
        self.cluster.pump(10.0)
        self.out("group", "reset", "idle", "Orders", "--to", "3", "--yes", "--plan", "/first.json")
        self.out("group", "reset", "idle", "Orders", "--to", "4", "--yes", "--plan", "/kept.json")
        self.cluster.send(
            "%RETRY%audit", b"dead", properties={"RETRY_TOPIC": "Orders"}, reconsume_times=16, max_reconsume_times=16
        )
        self.cluster.heartbeat("guests", "Orders", client_id="guest")
        given_up(self.cluster, "TX2", topic="Orders")
        send_half(self.cluster, "TX1", topic="Orders")
        self.cluster.send(TRACE_TOPIC, traced(f"{1:032X}").encode(), properties={"KEYS": f"{1:032X} k1"})
        self.out("kv", "put", "N", "k", "v")
        self.out("context", "set", "here")
        HttpReceiver().listen_in(self.env, 8080)
        self.front = Front(
            self.cluster,
            LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service]),
            alertReceivers="team slack url=http://hooks.example.com:8080/",
        )
        self.addCleanup(self.front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        self.cluster.broker.settings.change([("notifyConsumerIdsChangedEnable", "false")], Who("boss"))
        alerts = self.front.ops.alerts.table
        alerts.add_silence("disk-full", "", 1 << 60, "boss", 0, "")
        for dead in (0, 5):
            alerts.observe(ClusterSnapshot(dead={"audit": dead}), self.env.clock.wall_ms(), self.env.clock.seconds())
        files = self.env.files
        files.make_directories("/conf")
        rules = b"accounts: [{accessKey: somebody, secretKey: something, topicPerms: [Orders=PUB]}]"
        files.create("/conf/plain_acl.yml", rules)
        files.create("/broker.conf", b"brokerName=broker-a\n")
        files.create("/definitions.json", self.out("cluster", "export").encode())
        for path, data in read("store-a").files.items():
            files.make_directories(posixpath.dirname(f"/golden/{path}"))
            files.create(f"/golden/{path}", data)

    def words(self, command: str) -> list[str]:
        """A command with its arguments; one that needs a missing broker has one."""
        if command == "cluster forget":
            self.front.ops.membership.observe([BrokerPlace("c", "broker-x", 0, "192.0.2.1:1")])
        return [*command.split(), *COMMANDS[command].format(client=self.client_id).split()]

    def test_all(self) -> None:
        """No command is left out here."""
        self.assertIsInstance(cli, click.Group)
        self.assertEqual({name for name, _ in leaves(cli)} - ELSEWHERE, set(COMMANDS))

    def check_output(self, form: str) -> None:
        """Run every command that prints for programs; what it prints is of that form."""
        for name, command in leaves(cli):
            if name in ELSEWHERE or not any(one.name == "output" for one in command.params):
                continue
            if name == "msg push":
                continue  # needs a member that can: test_push
            printed = self.out(*self.words(name), "-o", form)
            self.assertTrue(printed, name)
            if form == "yaml":
                list(yaml.safe_load_all(printed))
            elif form == "json" and name not in ("consume", "msg tail"):
                json.loads(printed)
            else:
                for line in printed.splitlines():
                    msgspec.json.decode(line)

    def test_json(self) -> None:
        """With C{-o json} each prints one document, or where it never ends a line each."""
        self.check_output("json")

    def test_jsonl(self) -> None:
        """With C{-o jsonl} each prints lines of JSON."""
        self.check_output("jsonl")

    def test_yaml(self) -> None:
        """With C{-o yaml} each prints YAML."""
        self.check_output("yaml")

    def test_people(self) -> None:
        """Without it each says something to people."""
        for name in COMMANDS:
            if name not in ("msg push", "dlq export"):
                self.assertTrue(self.out(*self.words(name)), name)

    def test_unanswered(self) -> None:
        """Where no registry answers each ends with 75 and one sentence."""
        for name, command in leaves(cli):
            if any(one.name == "registry" for one in command.params) and name not in ("context set",):
                words = [*self.words(name), "--registry", NOBODY]
                if name == "doctor":
                    self.invoke(*words, status=1)
                else:
                    self.assertIn("127.0.0.1:1", self.refused(*words, status=75), name)

    def test_usage(self) -> None:
        """Every command refuses an option that is not there with 2."""
        for name in COMMANDS:
            self.invoke(*name.split(), "--no-such-option", status=2)


class ArgumentTests(SynchronousTestCase):
    def invoke(self, *arguments: str) -> Result:
        """Run it here, as far as the reactor is not needed."""
        return CliRunner().invoke(cli, arguments)

    def commands(
        self, group: click.Group, path: tuple[str, ...] = ()
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        """Every command below a group, with its words."""
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield (*path, name), command
            if isinstance(command, click.Group):
                yield from self.commands(command, (*path, name))

    def test_help(self) -> None:
        """Every command explains itself, its options and arguments, and shows examples that exist."""
        known = dict(self.commands(cast("click.Group", cli)))
        self.assertIn(("topic", "ls"), known)
        for words, command in known.items():
            result = self.invoke(*words, "--help")
            self.assertEqual(result.exit_code, 0, words)
            self.assertIn(f"Usage: cli {' '.join(words)}", result.output)
            self.assertIn("Examples:", result.output, words)
            self.assertTrue(command.help, words)
            for option in command.params:
                if isinstance(option, click.Option):
                    self.assertTrue(option.help, f"{words} {option.name}")
            for line in (command.epilog or "").splitlines():
                if line.strip().startswith("smartgo "):
                    self.assertTrue(any(line.split()[1 : 1 + len(one)] == list(one) for one in known), line)

    def test_table(self) -> None:
        """The list of commands is told without importing any of them."""
        script = "import sys; from smartgo.cli.main import main\ntry: main()\nfinally: print(*sorted(sys.modules))"
        found = subprocess.run(
            [sys.executable, "-c", script, "--help"], capture_output=True, cwd=ROOT, check=True, text=True
        ).stdout
        modules = found.splitlines()[-1].split()
        self.assertIn("smartgo.cli.main", modules)
        self.assertEqual([one for one in modules if one.split(".")[0] in ("twisted", "rich", "msgspec", "yaml")], [])

    def test_usage(self) -> None:
        """What cannot be meant ends with status 2 and says what could be."""
        for words, hint in (
            (["send"], "TOPIC"),
            (["send", "T", "x", "--count", "0"], "x>=1"),
            (["send", "T", "x", "--property", "noequals"], "NAME=VALUE"),
            (["consume", "T", "--from", "yesterday"], "first"),
            (["nonsense"], "No such command"),
            (["topic", "create", "T", "--queues", "5000"], "1024"),
        ):
            result = self.invoke(*words)
            self.assertEqual(result.exit_code, 2, words)
            self.assertIn(hint, result.output)


class ProcessTests(SynchronousTestCase):
    def test_no_registry(self) -> None:
        """Without a registry a command ends with 75 and one sentence, no traceback."""
        for words in (["send", "T", "x"], ["topic", "ls"], ["consume", "T"]):
            result = smartgo(*words, "--registry", "127.0.0.1:1")
            self.assertEqual((result.returncode, result.stdout), (75, b""), words)
            self.assertEqual(result.stderr.count(b"\n"), 1, result.stderr)

    def test_bad_names(self) -> None:
        """A name that breaks the rules, and an empty body, are the user's mistake: 2."""
        self.assertEqual(smartgo("send", "bad topic", "x").returncode, 2)
        self.assertEqual(smartgo("send", "T", stdin=b"").returncode, 2)


class LazyCommandsTests(SynchronousTestCase):
    def test_similar(self) -> None:
        """A misspelt command is answered by those with similar names, without importing any; status 2."""
        for word, hint in (
            ("sned", "No such command 'sned'. (Did you mean 'send'?)"),
            ("topics", "No such command 'topics'. (Did you mean one of: 'topic', 'top'"),
            ("grop", "No such command 'grop'. (Did you mean 'group'?)"),
            ("doctr", "(Did you mean 'doctor'?)"),
            ("zzz", "No such command 'zzz'.\n"),
        ):
            result = CliRunner().invoke(cli, [word])
            self.assertEqual(result.exit_code, 2, word)
            self.assertIn(hint, result.output)

    def test_option(self) -> None:
        """A wrong option is called an option."""
        result = CliRunner().invoke(cli, ["--sned"])
        self.assertIn("No such option", result.output)
