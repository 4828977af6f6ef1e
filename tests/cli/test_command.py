"""The smartgo command: what people may write, how mistakes end, and the demonstration in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import cast

import click
from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.commands.dev import configured
from smartgo.cli.commands.sendconsume import as_members, as_text, read_beginning
from smartgo.cli.main import cli
from smartgo.cli.support.output import in_words, json_line, moment, printable, size, span
from smartgo.cli.support.running import command_error
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import BadName, CallFailed, NotConnected, PeerRefused, SettingError, SmartgoError, StoreHeld
from smartgo.schema.bodies import ConsumeFromWhere, MessageQueue
from tests.fakes import FakeEnvironment
from tests.interop.case import PORTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def smartgo(*arguments: str, stdin: bytes = b"", timeout: float = 240) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    environment.pop("NAMESRV_ADDR", None)
    return subprocess.run(
        [sys.executable, "-m", "smartgo.cli.main", *arguments],
        input=stdin, capture_output=True, timeout=timeout, cwd=os.getcwd(), env=environment, check=False,
    )  # fmt: skip


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

    def test_beginning(self) -> None:
        """A time to begin at is written as people write it, or in milliseconds."""
        context = click.Context(cli)
        option = click.Option(["--from"])
        self.assertEqual(
            read_beginning(context, option, "2030-01-01T00:00:00+00:00"),
            (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 1_893_456_000_000),
        )
        self.assertEqual(read_beginning(context, option, "1000")[1], 1000)
        self.assertEqual(read_beginning(context, option, "first"), (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, None))

    def test_statuses(self) -> None:
        """Errors become a sentence and a status: 75 try again, 78 a setting, 2 a wrong argument, else 1."""
        cases: list[tuple[SmartgoError, int]] = [
            (NotConnected("no"), 75), (StoreHeld("/s", 7), 75), (SettingError("no"), 78), (BadName("no"), 2),
            (PeerRefused(1, "no"), 1), (CallFailed("no"), 1),
        ]  # fmt: skip
        for error, status in cases:
            self.assertEqual(command_error(error).exit_code, status, error)


class DevTests(SynchronousTestCase):
    def test_settings(self) -> None:
        """All data lie below one directory, in files of 64 MiB; options and settings have the last word."""
        env = FakeEnvironment()
        found = configured(env, "/d", "21911", "127.0.0.1:29876", None, ("flushDiskType=SYNC_FLUSH",))
        self.assertEqual(found.store.store_path_root_dir, "/d/store")
        self.assertEqual(found.registry.kv_config_path, "/d/registry/kvConfig.json")
        self.assertEqual(found.store.mapped_file_size_commit_log, 64 << 20)
        self.assertEqual((found.broker.listen_port, found.registry.listen_port), (21911, 29876))
        self.assertEqual(found.store.flush_disk_type, "SYNC_FLUSH")

    def test_alone(self) -> None:
        """C{NAMESRV_ADDR} does not have the broker join the cluster that commands ask; settings do."""
        env = FakeEnvironment()
        env.host.variables["NAMESRV_ADDR"] = "10.0.0.1:9876"
        self.assertEqual(configured(env, "/d").broker.namesrv_addr, ())
        given = configured(env, "/d", settings=("namesrvAddr=10.0.0.2:9876",))
        self.assertEqual(given.broker.namesrv_addr, ("10.0.0.2:9876",))

    def test_old_store(self) -> None:
        """A store that is there keeps the size of its files."""
        env = FakeEnvironment()
        env.files.make_directories("/d/store/commitlog")
        env.files.create("/d/store/commitlog/00000000000000000000", b"x")
        self.assertIsNone(configured(env, "/d").store.mapped_file_size_commit_log)

    def test_wrong(self) -> None:
        """A file that is not there, and a setting without a value, are refused."""
        self.assertRaises(SettingError, configured, FakeEnvironment(), "/d", config="/nothing.toml")
        self.assertRaises(click.UsageError, configured, FakeEnvironment(), "/d", settings=("x",))


class PrintingTests(SynchronousTestCase):
    def message(self, body: bytes) -> ReceivedMessage:
        """A message."""
        return ReceivedMessage(
            topic="T", queue=MessageQueue("T", "b", 2), queue_offset=5, body=body, properties={"TAGS": "A"},
            message_id="U", offset_id="O", log_offset=0, flag=0, born_ms=1, stored_ms=2, born_host="h:1",
            reconsume_times=0,
        )  # fmt: skip

    def test_text(self) -> None:
        """A line shows place, tag and body; bytes that are no text are escaped."""
        self.assertEqual(as_text(self.message(b"hi \xff")), "2:5 [A] hi \\xff")

    def test_json(self) -> None:
        """The members hold everything; a body that is no text stands in base64."""
        self.assertEqual(as_members(self.message("é".encode()))["body"], "é")
        found = as_members(self.message(b"\xff"))
        self.assertEqual((found["body_base64"], "body" in found), ("/w==", False))


class ProcessTests(SynchronousTestCase):
    def test_demo(self) -> None:
        """The demonstration finds every message, says so, ends with 0 and leaves nothing behind."""
        result = smartgo("demo", "--count", "1000")
        output = result.stdout.decode()
        self.assertEqual((result.returncode, result.stderr), (0, b""), output)
        self.assertIn("1,000", output)
        self.assertIn("Every message arrived", output)
        store = next(word for word in output.split() if "smartgo-demo-" in word)
        self.assertFalse(os.path.exists(store))

    def test_dev(self) -> None:
        """The broker in the foreground says where it is and what it keeps; ctrl-C ends it with 0, its messages stay."""
        first = PORTS.take(4)  # the broker takes the one above its own, too
        ports = [first + 1, first, first + 3]
        data = self.mktemp()
        command = [sys.executable, "-m", "smartgo.cli.main", "dev", "--data", data]
        command += ["--listen", str(ports[0]), "--registry-listen", str(ports[1]), "--ops", f"127.0.0.1:{ports[2]}"]
        command += ["--set", "mappedFileSizeCommitLog=1MiB", "--set", "fastPort=false"]
        registry = f"127.0.0.1:{ports[1]}"
        for round_number in range(2):
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT}
            )
            try:
                assert process.stdout is not None
                said = b""
                while b"Ready" not in said and (line := process.stdout.readline()):
                    said += line
                for word in (registry, f"127.0.0.1:{ports[0]}", data, "ASYNC_FLUSH"):
                    self.assertIn(word.encode(), said)
                self.assertEqual(smartgo("send", "T", f"round {round_number}", "-r", registry).returncode, 0)
                with urllib.request.urlopen(f"http://127.0.0.1:{ports[2]}/metrics", timeout=60) as metrics:
                    self.assertIn(b"\nsmartgo_reactor_stalls_total ", metrics.read())
                if round_number:
                    found = smartgo("consume", "T", "--from", "first", "--count", "2", "-o", "json", "-r", registry)
                    bodies = {json.loads(line)["body"] for line in found.stdout.splitlines()}
                    self.assertEqual(bodies, {"round 0", "round 1"}, found.stderr)
                    listed = smartgo("topic", "ls", "-o", "json", "-r", registry)
                    self.assertEqual([row["topic"] for row in json.loads(listed.stdout)], ["T"])
                    again = smartgo("topic", "create", "T", "--queues", "1", "-r", registry)
                    self.assertEqual((again.returncode, b"--change" in again.stderr), (78, True), again.stderr)
                    self.assertEqual(
                        smartgo("topic", "create", "T", "-n", "8", "--change", "-r", registry).returncode, 0
                    )
            finally:
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGTERM)  # from now on one more changes nothing
                _, errors = process.communicate(timeout=240)
            self.assertEqual((process.returncode, errors), (0, b""))

    def test_dev_file(self) -> None:
        """A file in place of the directory of data ends with 78 and one sentence."""
        path = self.mktemp()
        with open(path, "wb"):
            pass
        for words in ([], ["--masters", "2"]):
            result = smartgo("dev", "--data", path, *words)
            self.assertEqual((result.returncode, result.stderr.count(b"\n")), (78, 1), result.stderr)
            self.assertIn(b"Not a directory", result.stderr)

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


class SafetyTests(SynchronousTestCase):
    def test_terminal(self) -> None:
        """What others wrote does nothing to a terminal: escapes and directions are shown, not obeyed."""
        nasty = "a\x1b[2Jb\x9bc\u202ed\ne"
        self.assertEqual(printable(nasty), "a\\x1b[2Jb\\x9bc\\u202ed\\ne")
        self.assertEqual(printable(nasty, keep="\n").count("\n"), 1)
        self.assertEqual(printable("héllo 世界"), "héllo 世界")
        self.assertEqual(in_words([nasty]), printable(nasty))
        self.assertEqual(json_line({"a": "\x9b\x7f\x1b"}), '{"a":"\\u009b\\u007f\\u001b"}')

    def test_words(self) -> None:
        """Numbers, spans, sizes and moments are written as people read them."""
        cells: list[object] = [None, "", True, 1234567, 12.34, []]
        self.assertEqual([in_words(one) for one in cells], ["-", "-", "yes", "1,234,567", "12.3", "-"])
        spans = (None, 5.25, 600.0, 7200.0, 864000.0)
        self.assertEqual([span(one) for one in spans], [None, "5.25 s", "10 min", "2 h", "10 d"])
        self.assertEqual([size(one) for one in (10, 2048, 5 << 40)], ["10 B", "2 KiB", "5 TiB"])
        self.assertEqual((moment(0), moment(None), moment(1 << 62)), (None, None, str(1 << 62)))
