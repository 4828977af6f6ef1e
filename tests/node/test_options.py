"""The command line of the assemblies: addresses, settings, files, and one sentence for every mistake."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from twisted.python.usage import UsageError
from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE
from smartgo.env.product import product_version
from smartgo.errors import SettingError
from smartgo.node.all import with_own_registry
from smartgo.node.options import (
    AllOptions,
    BrokerOptions,
    FrontOptions,
    NodeOptions,
    RegistryOptions,
    SlaveOptions,
    configure,
    listen_flags,
)
from smartgo.node.process import check_tables
from smartgo.tablefile import TableFile
from tests.fakes import FakeEnvironment


class ListenTests(SynchronousTestCase):
    def test_forms(self) -> None:
        """An address is an endpoint description, ADDRESS:PORT, or a port."""
        for text, port, address in (
            ("tcp:10911:interface=127.0.0.1", "10911", "127.0.0.1"),
            ("tcp:10911", "10911", None),
            ("tcp:10911:interface=\\:\\:1", "10911", "::1"),
            ("127.0.0.1:21911", "21911", "127.0.0.1"),
            ("[::1]:21911", "21911", "::1"),
            ("9876", "9876", None),
        ):
            flags = listen_flags(text, "broker")
            self.assertEqual((flags["broker.listenPort"], flags.get("broker.bindAddress")), (port, address), text)

    def test_refused(self) -> None:
        """Anything else is refused, naming what was written and what may be."""
        for text in ("", "abc", "udp:1", "tcp:", "1.2.3.4:", "tcp:10911:backlog=5", "127.0.0.1:10911/x"):
            error = self.assertRaises(SettingError, listen_flags, text, "broker")
            self.assertIn("ADDRESS:PORT", str(error))


class VersionTests(SynchronousTestCase):
    def test_version(self) -> None:
        """The version is that of smartgo, not Twisted's."""
        said = StringIO()
        with redirect_stdout(said):
            error = self.assertRaises(SystemExit, BrokerOptions().parseOptions, ["--version"])
        self.assertEqual((error.code, said.getvalue()), (0, f"smartgo {product_version()}\ncore: {CORE}\n"))


class OptionsTests(SynchronousTestCase):
    def parse(self, options: NodeOptions, *arguments: str, files: dict[str, bytes] | None = None) -> Any:
        """The configuration that a command line gives."""
        env = FakeEnvironment()
        for path, data in (files or {}).items():
            env.files.create(path, data)
        options.parseOptions(list(arguments))
        return configure(env, options)

    def test_defaults(self) -> None:
        """Without a word everything is on loopback, and no registry is known."""
        found = self.parse(BrokerOptions())
        self.assertEqual(
            (found.broker.bind_address, found.broker.listen_port, found.broker.namesrv_addr), ("127.0.0.1", 10911, ())
        )
        self.assertEqual(self.parse(RegistryOptions()).registry.listen_port, 9876)

    def test_ops(self) -> None:
        """The REST API is served where it is said: at a port, an address, the usual place, or nowhere."""
        for text, place in (
            ("36000", ("127.0.0.1", 36000)),
            ("10.0.0.1:36000", ("10.0.0.1", 36000)),
            ("[::1]:36000", ("::1", 36000)),
            ("tcp:36000:interface=127.0.0.1", ("127.0.0.1", 36000)),
            ("on", ("127.0.0.1", 1)),
            ("off", None),
        ):
            self.assertEqual(self.parse(BrokerOptions(), "--ops", text).ops.place(1), place, text)
        self.assertIsNone(self.parse(BrokerOptions()).ops.place(1))
        self.assertRaises(SettingError, self.parse, BrokerOptions(), "--ops", "nowhere")

    def test_front(self) -> None:
        """An API before a cluster knows its registries, and keeps its files apart from those of a broker."""
        found = self.parse(FrontOptions(), "--registry", "a:1;b:2", "--listen", "127.0.0.1:36000")
        self.assertEqual(found.broker.namesrv_addr, ("a:1", "b:2"))
        self.assertEqual((found.ops.place(1), found.ops.ops_path), (("127.0.0.1", 36000), "/home/test/smartgo-ops"))
        self.assertEqual(self.parse(BrokerOptions(), "--store", "/s").ops.ops_path, "/s/ops")

    def test_flags(self) -> None:
        """Flags set what they name."""
        found = self.parse(
            BrokerOptions(), "--listen", "127.0.0.1:21911", "--store", "/s", "--registry", "a:1;b:2",
            "--set", "flushDiskType=SYNC_FLUSH", "--set", "brokerName=broker-a",
        )  # fmt: skip
        self.assertEqual((found.broker.listen_port, found.store.store_path_root_dir), (21911, "/s"))
        self.assertEqual(found.broker.namesrv_addr, ("a:1", "b:2"))
        self.assertEqual((found.store.flush_disk_type, found.broker.broker_name), ("SYNC_FLUSH", "broker-a"))

    def test_file_and_flags(self) -> None:
        """A RocketMQ file is read as it is; the command line is stronger."""
        files = {"/broker.conf": b"listenPort=30911\nbrokerName=broker-b\n"}
        found = self.parse(BrokerOptions(), "--config", "/broker.conf", "--listen", "40911", files=files)
        self.assertEqual((found.broker.listen_port, found.broker.broker_name), (40911, "broker-b"))

    def test_missing_file(self) -> None:
        """A configuration file that is not there is named."""
        error = self.assertRaises(SettingError, self.parse, BrokerOptions(), "--config", "/nowhere.conf")
        self.assertIn("/nowhere.conf", str(error))

    def test_bad_set(self) -> None:
        """An override without a value, or of an unknown name, is refused."""
        self.assertRaises(UsageError, self.parse, BrokerOptions(), "--set", "listenPort")
        error = self.assertRaises(SettingError, self.parse, BrokerOptions(), "--set", "listenPrt=1")
        self.assertIn("listenPrt", str(error))

    def test_all(self) -> None:
        """Both in one process: each has its own address, and the broker registers with the registry beside it."""
        found = self.parse(AllOptions(), "--listen", "20911", "--registry-listen", "127.0.0.1:29876", "-r", "x:9876")
        self.assertEqual((found.broker.listen_port, found.registry.listen_port), (20911, 29876))
        self.assertEqual(with_own_registry(found).broker.namesrv_addr, ("127.0.0.1:29876", "x:9876"))

    def test_allow_insecure(self) -> None:
        """The flag covers whatever the command runs."""
        found = self.parse(AllOptions(), "--allow-insecure")
        self.assertTrue(found.broker.allow_insecure and found.registry.allow_insecure)
        self.assertTrue(self.parse(RegistryOptions(), "--allow-insecure").registry.allow_insecure)

    def test_slave(self) -> None:
        """A slave is one whatever its file says, has the id 1 unless told otherwise, and knows its master."""
        found = self.parse(SlaveOptions(), "--master-ha", "10.0.0.1:10912", "--name", "a", "--store", "/s")
        self.assertEqual(
            (found.broker.broker_role, found.broker.broker_id, found.broker.broker_name), ("SLAVE", 1, "a")
        )
        self.assertEqual((found.ha.ha_master_address, found.store.store_path_root_dir), ("10.0.0.1:10912", "/s"))
        files = {"/b.conf": b"brokerRole=SYNC_MASTER\nbrokerId=2\nbrokerName=b\n", "/m.conf": b"brokerId=0\n"}
        found = self.parse(SlaveOptions(), "-c", "/b.conf", files=files)
        self.assertEqual(
            (found.broker.broker_role, found.broker.broker_id, found.broker.broker_name), ("SLAVE", 2, "b")
        )
        self.assertEqual(self.parse(SlaveOptions(), "-c", "/b.conf", "--id", "7", files=files).broker.broker_id, 7)
        error = self.assertRaises(SettingError, self.parse, SlaveOptions(), "-c", "/m.conf", files=files)
        self.assertIn("brokerId must be above 0", str(error))

    def test_own_files(self) -> None:
        """Each command has pid and log files of its own name, unless told otherwise."""
        options: Any = BrokerOptions()
        options.parent = {"pidfile": "twistd.pid", "logfile": None, "nodaemon": False, "umask": None}
        options.parseOptions([])
        self.assertEqual(
            options.parent,
            {
                "pidfile": "smartgo-broker.pid", "logfile": "smartgo-broker.log", "nodaemon": False, "umask": 0o077,
                "logger": "smartgo.node.logs.text_log",
            },
        )  # fmt: skip
        options.parent = {"pidfile": "/run/mine.pid", "logfile": None, "nodaemon": True, "umask": 0o022}
        options.parseOptions([])
        self.assertEqual(options.parent["pidfile"], "/run/mine.pid")
        self.assertEqual((options.parent["logfile"], options.parent["umask"]), (None, 0o022))

    def test_free_ports(self) -> None:
        """Port 0 is made a free one at once, so that what is registered can be reached."""
        found = self.parse(AllOptions(), "--listen", "0", "--registry-listen", "127.0.0.1:0")
        self.assertGreater(found.broker.listen_port, 1000)
        self.assertGreater(found.registry.listen_port, 1000)
        self.assertNotEqual(found.broker.listen_port, found.registry.listen_port)
        self.assertIsNone(found.broker.fast_listen_port)
        self.assertNotIn(found.ha_port, (0, 1, found.broker.listen_port, found.registry.listen_port))
        self.assertGreater(self.parse(BrokerOptions(), "--set", "haListenPort=0").ha_port, 1000)

    def test_not_built(self) -> None:
        """A setting that nothing follows yet gets a warning where somebody gave it."""
        files = {"/b.conf": b"filterSupportRetry=true\nflushDiskType=SYNC_FLUSH\n"}
        found = self.parse(BrokerOptions(), "--config", "/b.conf", files=files)
        self.assertEqual(
            [one for one in found.warnings if "no effect" in one],
            ["/b.conf, line 1: filterSupportRetry has no effect yet"],
        )
        self.assertEqual(self.parse(BrokerOptions()).warnings, ())

    def test_usage_error(self) -> None:
        """Below twistd a usage error is one sentence on standard error, with a hint at --help, and status 2."""
        for words in (["--lisen", "1"], ["--set", "x"], ["surplus"], ["--log-format", "xml"]):
            options: Any = BrokerOptions()
            options.parent = {}
            written = StringIO()
            with redirect_stderr(written):
                error = self.assertRaises(SystemExit, options.parseOptions, words)
            self.assertEqual(error.code, 2)
            self.assertEqual(written.getvalue().count("\n"), 1)
            self.assertTrue(written.getvalue().startswith("smartgo-broker: "))
            self.assertTrue(written.getvalue().endswith("; see: twistd smartgo-broker --help\n"))

    def test_settings_of_rocketmq(self) -> None:
        """A setting that only RocketMQ has is named as such, without a guess at a similar name."""
        for given, words in (
            ("enableDLegerCommitLog=true", "RocketMQ's Raft log (DLedger), which smartgo does not have"),
            ("dLegerGroup=g", "dLegerGroup is a setting of RocketMQ that smartgo does not have"),
        ):
            error = self.assertRaises(SettingError, self.parse, BrokerOptions(), "--set", given)
            self.assertIn(words, str(error))
            self.assertNotIn("did you mean", str(error))
        self.parse(BrokerOptions(), "--set", "enableDLegerCommitLog=false")

    def test_ports_of_one_process(self) -> None:
        """A registry on a port of the broker in the same process, such as its fast port, is refused."""
        words = ("--listen", "26031", "--registry-listen", "26029")
        error = self.assertRaises(SettingError, self.parse, AllOptions(), *words)
        self.assertIn("is 26029, which another port of this process uses already", str(error))

    def test_empty_store(self) -> None:
        """An empty --store, as of a variable that is not set, is refused."""
        self.assertRaises(SettingError, self.parse, BrokerOptions(), "--store", "")


class TableTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Two tables on a disk in memory."""
        self.env = FakeEnvironment()
        self.env.files.make_directories("/config")
        self.files = [TableFile(self.env, f"/config/{name}.json") for name in ("a", "b")]
        self.tables = [(file, file.load) for file in self.files]

    def test_broken(self) -> None:
        """All tables that cannot be read are named before anything is started."""
        check_tables(self.env, self.tables, [])
        for name in ("a", "b"):
            self.env.files.create(f"/config/{name}.json", b"{bad")
        error = self.assertRaises(SettingError, check_tables, self.env, self.tables, [])
        self.assertIn("/config/a.json", str(error))
        self.assertIn("/config/b.json", str(error))

    def test_reset(self) -> None:
        """A broken table is kept aside and begun anew when asked; one that can be read is left alone."""
        self.env.files.create("/config/a.json", b"{bad")
        self.env.files.create("/config/b.json", b'{"good":1}')
        check_tables(self.env, self.tables, ["/config/../config/a.json", "/config/b.json"])
        self.assertIsNone(self.files[0].load())
        self.assertEqual(self.files[1].load(), {"good": 1})
        self.assertIn("a.json.broken", " ".join(self.env.files.list("/config")))
        self.assertRaises(SettingError, check_tables, self.env, self.tables, ["/config/c.json"])
