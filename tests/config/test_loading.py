"""Tests of L{smartgo.config.loading} and what it is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config import known
from smartgo.config.catalog import find, settings_of, show, with_settings
from smartgo.config.loading import ALL, BROKER, REGISTRY, Configuration, Surroundings, load
from smartgo.config.settings import TABLES, BrokerConfig
from smartgo.config.sources import Origin
from smartgo.errors import SettingError

BROKER_CONF = b"""
# a cluster of two
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
namesrvAddr = 10.0.0.1:9876; 10.0.0.2:9876
listenPort = 20911
brokerIP1 = 10.0.0.7
storePathRootDir = /data/rocketmq
storePathCommitLog = /data/rocketmq/commitlog
storePathConsumeQueue = /data/rocketmq/consumequeue
mapedFileSizeCommitLog = 1048576
mappedFileSizeConsumeQueue = 2000
sendMessageThreadPoolNums = 128
diskMaxUsedSpaceRatio = 99
autoCreateTopicEnable = FALSE
"""


def surroundings(**variables: str) -> Surroundings:
    """A machine called vm.example.org with this environment."""
    return Surroundings("vm.example.org", "/home/mq", variables.get)


def read(
    text: str | bytes = b"",
    path: str = "broker.conf",
    tables: tuple[str, ...] = BROKER,
    flags: Mapping[str, str] | None = None,
    **variables: str,
) -> Configuration:
    """Load one file."""
    return load(surroundings(**variables), tables, path, text.encode() if isinstance(text, str) else text, flags)


class SchemaTests(SynchronousTestCase):
    """The schema itself."""

    def test_defaults_are_allowed(self) -> None:
        """Every default, shown and read again, is itself."""
        for table in TABLES:
            for setting in settings_of(table):
                if not setting.optional:
                    shown = setting.kind.show(setting.default)
                    self.assertEqual(setting.read(shown, "test"), setting.default, setting.name)

    def test_names(self) -> None:
        """Names are camel case as RocketMQ has them, and unique within a program, but for those of two ports."""
        for table in TABLES:
            for setting in settings_of(table):
                pattern = r"tls\.[a-zA-Z.]+" if table == "tls" else r"[a-z]+([A-Z][a-z]*|[A-Z]+|[0-9])*"
                self.assertRegex(setting.name, f"^{pattern}$")
        names = [setting.name for table in BROKER for setting in settings_of(table)]
        self.assertEqual(len(names), len(set(names)))

    def test_known_are_not_ours(self) -> None:
        """No name is both a setting and one without meaning, under any spelling."""
        for name in known.WITHOUT_MEANING | set(known.MUST_BE):
            self.assertIsNone(find(name, ALL), name)

    def test_foreign_keys(self) -> None:
        """Every key of BoltMQ that has another name leads to a setting."""
        for table, name in known.FOREIGN_KEYS.values():
            self.assertIsNotNone(find(name, (table,)), name)

    def test_rocketmq_defaults(self) -> None:
        """The defaults of RocketMQ 4.9 are ours, in the units of the code."""
        configuration = load(surroundings())
        broker, store = configuration.broker, configuration.store
        self.assertEqual((broker.listen_port, broker.fast_listen_port, configuration.ha_port), (10911, 10909, 10912))
        self.assertEqual(configuration.registry.listen_port, 9876)
        self.assertEqual(
            (broker.broker_cluster_name, broker.broker_id, broker.broker_permission), ("DefaultCluster", 0, 6)
        )
        self.assertEqual((broker.default_topic_queue_nums, broker.register_name_server_period), (8, 30.0))
        self.assertEqual(broker.flush_consumer_offset_interval, 5.0)
        self.assertEqual(store.flush_delay_offset_interval, 1.0)  # RocketMQ's is 10 s: docs/decisions/delivered-again
        self.assertEqual((store.flush_disk_type, store.flush_interval_commit_log), ("ASYNC_FLUSH", 0.5))
        self.assertEqual((store.file_reserved_time, store.delete_when), (72 * 3600.0, (4,)))
        self.assertEqual((store.max_message_size, store.disk_max_used_space_ratio), (4194304, 75))
        self.assertIsNone(store.mapped_file_size_commit_log)


class DerivedTests(SynchronousTestCase):
    """Defaults that depend on the machine and on each other."""

    def test_host_name(self) -> None:
        """The broker is called like the host, in letters that a topic name can have."""
        self.assertEqual(load(surroundings()).broker.broker_name, "vm-example-org")

    def test_paths(self) -> None:
        """Data lies below the home directory, or below SMARTGO_HOME."""
        there = load(surroundings())
        self.assertEqual(there.store.store_path_root_dir, "/home/mq/store")
        self.assertEqual(there.store.store_path_commit_log, "/home/mq/store/commitlog")
        self.assertEqual(there.registry.kv_config_path, "/home/mq/namesrv/kvConfig.json")
        moved = load(surroundings(SMARTGO_HOME="/srv/mq", ROCKETMQ_HOME="/opt/rocketmq"))
        self.assertEqual(moved.store.store_path_root_dir, "/srv/mq/store")
        self.assertEqual(moved.registry.kv_config_path, "/srv/mq/namesrv/kvConfig.json")
        self.assertEqual(moved.broker.rocketmq_home, "/srv/mq")
        self.assertEqual(load(surroundings(ROCKETMQ_HOME="/opt/rocketmq")).broker.rocketmq_home, "/opt/rocketmq")

    def test_home_in_paths(self) -> None:
        """A leading ~/ or {{HOME}}/ stands for the home directory, and paths are tidied."""
        for given in ("~/data/", "{{HOME}}/data", "/home/mq/x/../data"):
            self.assertEqual(read(f"storePathRootDir={given}").store.store_path_root_dir, "/home/mq/data")

    def test_addresses(self) -> None:
        """Clients are told the bound address; behind a wildcard that is left open; slaves get the same by default."""
        local = load(surroundings()).broker
        self.assertEqual((local.bind_address, local.broker_ip1, local.broker_ip2), ("127.0.0.1",) * 3)
        self.assertEqual(read("bindAddress=10.0.0.9").broker.broker_ip2, "10.0.0.9")
        self.assertEqual(read("bindAddress=0.0.0.0").broker.broker_ip1, "")
        named = read("bindAddress=::\nbrokerIP1=broker-0.mq.svc").broker
        self.assertEqual((named.broker_ip1, named.broker_ip2), ("broker-0.mq.svc", "broker-0.mq.svc"))

    def test_ports(self) -> None:
        """Fast and HA port follow the listening port, unless given, switched off, or left to the system."""
        moved = read("listenPort=20911")
        self.assertEqual((moved.broker.fast_listen_port, moved.ha_port), (20909, 20912))
        given = read("fastPort=20900\nhaListenPort=20999")
        self.assertEqual((given.broker.fast_listen_port, given.ha_port), (20900, 20999))
        for off in ("false", "off"):
            self.assertIsNone(read(f"fastPort={off}").broker.fast_listen_port)
        self.assertEqual(read("fastPort=on").broker.fast_listen_port, 10909)
        free = read("listenPort=0")
        self.assertEqual((free.broker.fast_listen_port, free.ha_port), (None, 0))

    def test_dispatch_after_flush(self) -> None:
        """Consumers wait for the flush under SYNC_FLUSH, unless told otherwise (reliability D6)."""
        self.assertFalse(read().store.dispatches_after_flush)
        self.assertTrue(read("flushDiskType=SYNC_FLUSH").store.dispatches_after_flush)
        self.assertFalse(read("flushDiskType=SYNC_FLUSH\ndispatchAfterFlush=false").store.dispatches_after_flush)

    def test_tls_mode(self) -> None:
        """TLS is permissive where a certificate is configured, else disabled."""
        self.assertEqual(read().tls.mode, "disabled")
        certified = "tls.server.certPath=/c\ntls.server.keyPath=/k"
        self.assertEqual(read(certified).tls.mode, "permissive")
        asked = f"{certified}\ntls.server.trustCertPath=/a\ntls.server.need.client.auth="
        self.assertEqual(read(f"{asked}optional").tls.mode, "permissive")
        self.assertEqual(read(f"{asked}require").tls.mode, "enforcing")
        self.assertEqual(read(f"{asked}require\ntls.server.mode=enforcing").tls.mode, "enforcing")

    def test_required_certificate(self) -> None:
        """
        A client certificate that is required is required: a mode that lets clients in without TLS is refused.
        """
        asked = "tls.server.trustCertPath=/a\ntls.server.need.client.auth=require"
        certified = f"{asked}\ntls.server.certPath=/c\ntls.server.keyPath=/k"
        for text, why in (
            (f"{certified}\ntls.server.mode=permissive", "tls.server.mode is permissive"),
            (f"{certified}\ntls.server.mode=disabled", "tls.server.mode is disabled"),
            (asked, "tls.server.certPath is missing"),
        ):
            error = str(self.assertRaises(SettingError, read, text))
            self.assertIn(f"tls.server.need.client.auth is require, but {why}: clients without TLS", error)


class PropertiesFileTests(SynchronousTestCase):
    """An unchanged file of RocketMQ."""

    def test_broker_conf(self) -> None:
        """A broker.conf is read whole, old spellings and settings without meaning included."""
        configuration = read(BROKER_CONF)
        broker, store = configuration.broker, configuration.store
        self.assertEqual((broker.broker_name, broker.listen_port, broker.broker_ip1), ("broker-a", 20911, "10.0.0.7"))
        self.assertEqual(broker.namesrv_addr, ("10.0.0.1:9876", "10.0.0.2:9876"))
        self.assertIs(broker.auto_create_topic_enable, False)
        self.assertEqual((store.flush_disk_type, store.file_reserved_time), ("SYNC_FLUSH", 48 * 3600.0))
        self.assertEqual((store.mapped_file_size_commit_log, store.mapped_file_size_consume_queue), (1048576, 2000))
        self.assertEqual(store.disk_max_used_space_ratio, 95)
        self.assertEqual(
            list(configuration.warnings),
            [
                "broker.conf, line 19: diskMaxUsedSpaceRatio=99 is out of range; using 95",
                "broker.conf, line 12: brokerIP1 is 10.0.0.7, but the broker listens on 127.0.0.1: set bindAddress too",
            ],
        )

    def test_last_wins(self) -> None:
        """Of a repeated key the last value holds."""
        self.assertEqual(read("listenPort=1111\nlistenPort=2222").broker.listen_port, 2222)

    def test_registry_file(self) -> None:
        """In a registry's file the port is the registry's; a broker's settings there say nothing."""
        configuration = read(
            "listenPort=19876\nserverChannelMaxIdleTimeSeconds=60\nbrokerName=x", "n.properties", REGISTRY
        )
        self.assertEqual(configuration.registry.listen_port, 19876)
        self.assertEqual(configuration.registry.server_channel_max_idle_time_seconds, 60.0)
        self.assertEqual((configuration.broker.listen_port, configuration.warnings), (10911, []))

    def test_unknown(self) -> None:
        """An unknown key is a warning with file, line and the nearest name."""
        self.assertEqual(
            list(read("\nflushDiskTyp=SYNC_FLUSH\nxyzzy=1").warnings),
            [
                "broker.conf, line 2: unknown setting flushDiskTyp; did you mean flushDiskType?",
                "broker.conf, line 3: unknown setting xyzzy",
            ],
        )

    def test_dangerous(self) -> None:
        """A setting of RocketMQ that must not be ignored stops the start, unless it is at its harmless value."""
        error = self.assertRaises(SettingError, read, "enableDLegerCommitLog=true")
        self.assertIn("broker.conf, line 1: enableDLegerCommitLog=true is not supported", str(error))
        self.assertEqual(read("enableDLegerCommitLog=false\nreadOnlyCommitLogStorePaths=").warnings, [])

    def test_empty(self) -> None:
        """An empty value of a setting that may be absent is as if it were absent; of others it is not allowed."""
        configuration = read("namesrvAddr=\nmappedFileSizeCommitLog=\nbrokerIP1=", NAMESRV_ADDR="a:1")
        self.assertEqual(configuration.broker.namesrv_addr, ("a:1",))
        self.assertIsNone(configuration.store.mapped_file_size_commit_log)
        self.assertRaises(SettingError, read, "listenPort=")


class BadValueTests(SynchronousTestCase):
    """Refused values, each with one sentence."""

    def test_sentence(self) -> None:
        """It names file, line, key, value, and what is allowed."""
        error = self.assertRaises(SettingError, read, "\nlistenPort=70000")
        self.assertEqual(
            str(error),
            "broker.conf, line 2: listenPort=70000 is not allowed; it must be a port from 0 (any free one) to 65535",
        )

    def test_values(self) -> None:
        """Every kind refuses what is not its own: near misses, other digits, signs, units, overlong numbers."""
        bad = {
            "listenPort": ["1_0", "+1", " 1x", "\uff11", "-1", "1.0", "65536", "0x10"],
            "autoCreateTopicEnable": ["yes", "1", ""],
            "flushDiskType": ["SYNC", "", "ASYNC_FLUSH;"],
            "brokerRole": ["MASTER"],
            "namesrvAddr": ["host", "host:0", "host:65536", "a b:1", "::1:9876", "[::g]:1", "http://x:1/"],
            "brokerName": ["a/b", "..", ".a", "a" * 128, "a b", "\uff42"],
            "deleteWhen": ["24", "-1", "4:00", ";"],
            "messageDelayLevel": ["", "1x", "five"],
            "flushIntervalCommitLog": ["0", "1 week", "-5", "1e3"],
            "mappedFileSizeCommitLog": ["1TB", "12", "4GiB"],
            "bindAddress": ["localhost", "1.2.3", "*", "256.0.0.1"],
            "brokerIP1": ["a/b", "-x", "a b"],
            "advertisedAddresses": ["10.0.0.5:10911", "10.0.0.0/8=h", "eth0=h:1", "@=h:1"],
            "haAdvertisedAddresses": ["10.0.0.5:10912", "eth0=h:1"],
            "storePathRootDir": ["a\\u0000b"],
            "haMasterAddress": ["10.0.0.1", "a:1;b:1", "a:0", ":1"],
            "haAllow": ["10.0.0.0/33", "host", "10.0.0.1;x", "1.2.3"],
            "haAckMode": ["both", ""],
            "haSecretKey": ["short6", "a blank is one", "x" * 257],
            "fastPort": ["0", "maybe", "70000"],
            "brokerId": ["9" * 20, "-1"],
        }
        for name, values in bad.items():
            for value in values:
                error = self.assertRaises(SettingError, read, f"{name}={value}")
                self.assertIn(f"{name}=", str(error))

    def test_good_values(self) -> None:
        """What is near the edge but allowed is taken."""
        store = read(
            "deleteWhen=4;13;04\nflushIntervalCommitLog=1s\nmappedFileSizeCommitLog=1 MiB\nfileReservedTime=2d"
        ).store
        self.assertEqual(store.delete_when, (4, 13))
        self.assertEqual((store.flush_interval_commit_log, store.file_reserved_time), (1.0, 172800.0))
        self.assertEqual(store.mapped_file_size_commit_log, 1048576)
        broker = read("namesrvAddr=[::1]:9876;mq-0.x:1; ;mq-0.x:1\nbrokerName=broker.a").broker
        self.assertEqual((broker.namesrv_addr, broker.broker_name), (("[::1]:9876", "mq-0.x:1"), "broker.a"))

    def test_addresses(self) -> None:
        """One address is one, with a name, an IPv4 or a bracketed IPv6 address."""
        for address in ("10.0.0.1:10912", "master.mq:1", "[::1]:10912"):
            self.assertEqual(read(f"haMasterAddress={address}").ha.ha_master_address, address)
        self.assertIsNone(read("haMasterAddress=").ha.ha_master_address)

    def test_networks(self) -> None:
        """Addresses and networks, as text or a list, become networks, each once."""
        wanted = ("10.0.0.0/8", "192.0.2.7/32", "::1/128")
        for path, text in (
            ("broker.conf", "haAllow=10.1.2.3/8; 192.0.2.7;;::1;10.0.0.0/8"),
            ("a.toml", '[ha]\nhaAllow = ["10.0.0.0/8", "192.0.2.7", "::1"]'),
        ):
            found = read(text, path).ha
            self.assertEqual(found.ha_allow, wanted, path)
            self.assertEqual(dict(show("ha", found))["haAllow"], ";".join(wanted))
        self.assertRaises(SettingError, read, "[ha]\nhaAllow = [1]", "a.toml")

    def test_slaves_port(self) -> None:
        """The port for slaves is on the address of the others, unless another is given."""
        self.assertEqual(read().ha.ha_bind_address, "127.0.0.1")
        self.assertEqual(read("bindAddress=::1").ha.ha_bind_address, "::1")
        self.assertEqual(read("bindAddress=::1\nhaBindAddress=127.0.0.2").ha.ha_bind_address, "127.0.0.2")

    def test_slaves_key(self) -> None:
        """The key for slaves has a name and a secret, both or neither, and neither is shown."""
        found = read("haAccessKey=smartgo-ha\nhaSecretKey=#1;=x/y").ha
        self.assertEqual((found.ha_access_key, found.ha_secret_key), ("smartgo-ha", "#1;=x/y"))
        shown = dict(show("ha", found))
        self.assertEqual((shown["haAccessKey"], shown["haSecretKey"]), ("***", "***"))
        self.assertIsNone(read("haAccessKey=\nhaSecretKey=").ha.ha_access_key)
        for name, other in (("haAccessKey", "haSecretKey"), ("haSecretKey", "haAccessKey")):
            error = self.assertRaises(SettingError, read, f"{name}=12345678")
            self.assertIn(f"{name} needs {other} beside it", str(error))
            self.assertNotIn("12345678", str(error))
        error = self.assertRaises(SettingError, read, "haAccessKey=smartgo-ha\nhaSecretKey=secret")
        self.assertIn("haSecretKey=*** is not allowed", str(error))

    def test_open_to_slaves(self) -> None:
        """A port for slaves that everybody reaches, and nobody is kept away from, is worth a warning."""
        for text, warned in (
            ("bindAddress=0.0.0.0", True),
            ("haBindAddress=10.0.0.1", True),
            ("bindAddress=0.0.0.0\nhaBindAddress=127.0.0.1", False),
            ("bindAddress=0.0.0.0\nhaAllow=10.0.0.2", False),
            ("bindAddress=0.0.0.0\nhaAccessKey=smartgo-ha\nhaSecretKey=12345678", False),
            ("bindAddress=0.0.0.0\nbrokerRole=SLAVE\nbrokerId=1", False),
            ("", False),
        ):
            found = [one for one in read(text).warnings if "haAllow is empty" in one]
            self.assertEqual(len(found), int(warned), text)
        self.assertEqual(read("bindAddress=0.0.0.0", tables=REGISTRY).warnings, [])

    def test_program_defaults(self) -> None:
        """What a program has for a default yields to everything else, and counts as a default."""
        defaults = {"brokerId": "1"}
        found = load(surroundings(), flags={"brokerRole": "SLAVE"}, defaults=defaults)
        self.assertEqual((found.broker.broker_id, found.origins["broker", "brokerId"].source), (1, "default"))
        data = b"brokerRole=SLAVE\nbrokerId=3"
        self.assertEqual(load(surroundings(), BROKER, "b.conf", data, defaults=defaults).broker.broker_id, 3)

    def test_secret(self) -> None:
        """A secret never appears in a message or a listing (reliability X8, X18)."""
        error = self.assertRaises(SettingError, read, "tls.server.keyPassword=hunter2" + "2" * 2000)
        self.assertNotIn("hunter", str(error))
        tls = read("tls.server.keyPassword=hunter2").tls
        self.assertEqual(dict(show("tls", tls))["tls.server.keyPassword"], "***")
        found = read("haAccessKey=smartgo-ha\nhaSecretKey=hunter22\ntls.server.keyPassword=hunter2\nbrokerName=shown")
        self.assertNotIn("hunter", repr(found))
        self.assertIn("ha_secret_key=***", repr(found))
        self.assertIn("broker_name='shown'", repr(found))
        self.assertIn("client_key_password=None", repr(found))

    def test_escaped(self) -> None:
        """A value is shown on one line, whatever is in it."""
        error = self.assertRaises(SettingError, read, "brokerName=a\\n\x1b[31mb")
        self.assertIn("brokerName=a\\n\\x1b[31mb is not", str(error))

    def test_relations(self) -> None:
        """Settings that contradict each other are refused, naming the one to change."""
        for text, name in (
            ("storePathRootDir=/a\nstorePathCommitLog=/b", "storePathCommitLog"),
            ("storePathRootDir=/a\nstorePathCommitLog=/ab/commitlog", "storePathCommitLog"),
            ("storePathRootDir=/a\nstorePathCommitLog=/a/../b", "storePathCommitLog"),
            ("brokerRole=SLAVE", "brokerId"),
            ("fastPort=10911", "fastPort"),
            ("haListenPort=10911", "haListenPort"),
            ("listenPort=65535", "listenPort"),
            ("tls.server.mode=enforcing", "tls.server.mode"),
            ("tls.server.certPath=/c", "tls.server.certPath"),
            ("tls.client.keyPath=/k", "tls.client.keyPath"),
            ("tls.server.need.client.auth=require", "tls.server.need.client.auth"),
            ("unsentResumeSize=2MiB", "unsentResumeSize"),
        ):
            error = self.assertRaises(SettingError, read, text)
            self.assertRegex(str(error), f": {re.escape(name)} ", text)

    def test_master_id(self) -> None:
        """A master's id is 0 whatever the file says, with a warning, as in RocketMQ; a slave keeps its own."""
        master = read("brokerId=3")
        self.assertEqual(master.broker.broker_id, 0)
        self.assertEqual(list(master.warnings), ["broker.conf, line 1: brokerId is 0 for brokerRole=ASYNC_MASTER"])
        self.assertEqual(read("brokerId=3\nbrokerRole=slave").broker.broker_id, 3)

    def test_unreachable(self) -> None:
        """An address for clients elsewhere, while the broker listens to this machine alone, is a warning."""
        self.assertEqual(len(read("brokerIP1=broker.mq.svc").warnings), 1)
        for text in ("brokerIP1=10.0.0.7\nbindAddress=0.0.0.0", "brokerIP1=127.0.0.2", "brokerIP1=localhost"):
            self.assertEqual([one for one in read(text).warnings if "haAllow" not in one], [])

    def test_clamped(self) -> None:
        """The registration period is moved into its range, as in RocketMQ, and said so; inside nothing is said."""
        low = read("registerNameServerPeriod=1000")
        self.assertEqual((low.broker.register_name_server_period, len(low.warnings)), (10.0, 1))
        self.assertEqual(read("registerNameServerPeriod=20000").warnings, [])

    def test_message_above_frame(self) -> None:
        """A message size that no frame can carry is a warning, as RocketMQ takes such files."""
        self.assertEqual(len(read("maxMessageSize=65536000").warnings), 1)


class TomlTests(SynchronousTestCase):
    """Our own file."""

    def read(self, text: str, tables: tuple[str, ...] = ALL) -> Configuration:
        """Load a TOML file."""
        return read(text, "smartgo.toml", tables)

    def test_tables(self) -> None:
        """One table a part, RocketMQ's names or lower case, TOML's own types."""
        configuration = self.read("""
            [broker]
            brokerName = "broker-a"
            listen_port = 20911
            namesrvAddr = ["a:1", "b:2"]
            fastPort = false
            [store]
            flush_disk_type = "SYNC_FLUSH"
            mappedFileSizeCommitLog = "1GiB"
            deleteWhen = [4, 16]
            fileReservedTime = 24
            [tls.server]
            certPath = "/c"
            keyPath = "/k"
            need.client.auth = "none"
            [registry]
            listenPort = 19876
            [limits]
            max_topics = 5
        """)
        self.assertEqual(configuration.warnings, [])
        self.assertEqual((configuration.broker.listen_port, configuration.registry.listen_port), (20911, 19876))
        self.assertEqual(configuration.broker.namesrv_addr, ("a:1", "b:2"))
        self.assertIsNone(configuration.broker.fast_listen_port)
        self.assertEqual((configuration.store.delete_when, configuration.store.file_reserved_time), ((4, 16), 86400.0))
        self.assertEqual(configuration.store.mapped_file_size_commit_log, 1 << 30)
        self.assertEqual((configuration.tls.server_cert_path, configuration.tls.mode), ("/c", "permissive"))
        self.assertEqual(configuration.limits.max_topics, 5)

    def test_boltmq(self) -> None:
        """BoltMQ's broker.toml and namesrv.toml are understood."""
        configuration = self.read("""
            [cluster]
            name = "BoltMQCluster"
            broker_name = "broker-node"
            broker_id = 0
            broker_role = "SYNC_MASTER"
            namesrv_addrs = ["10.0.0.1:9876"]
            [broker]
            port = 11911
            ip = "127.0.0.5"
            delete_when = 3
            auto_create_topic_enable = false
            permission = 4
            short_polling_timemills = 500
            send_thread_pool_queue_capacity = 100000
            [store]
            root_dir = "{{HOME}}/store"
            flush_disk_type = "SYNC_FLUSH"
            file_reserved_time = 48
            [log]
            config_file_path = "etc/log.toml"
            [namesrv]
            host = "0.0.0.0"
            port = 9877
            kv_config_path = "/x/nsrv-kv.json"
        """)
        self.assertEqual(configuration.warnings, [])
        broker = configuration.broker
        self.assertEqual((broker.broker_cluster_name, broker.broker_role), ("BoltMQCluster", "SYNC_MASTER"))
        self.assertEqual((broker.listen_port, broker.broker_ip1, broker.broker_permission), (11911, "127.0.0.5", 4))
        self.assertEqual((broker.short_polling_time_mills, broker.auto_create_topic_enable), (0.5, False))
        self.assertEqual(
            (configuration.store.delete_when, configuration.store.store_path_root_dir), ((3,), "/home/mq/store")
        )
        registry = configuration.registry
        self.assertEqual((registry.bind_address, registry.listen_port), ("0.0.0.0", 9877))
        self.assertEqual(registry.kv_config_path, "/x/nsrv-kv.json")

    def test_wrong_table(self) -> None:
        """A setting in the wrong table is refused with the right one, as ignoring it could mean other data."""
        error = self.assertRaises(SettingError, self.read, "[broker]\nstorePathRootDir = '/x'")
        self.assertEqual(str(error), "smartgo.toml, [broker]: storePathRootDir belongs in the table [store]")

    def test_no_table(self) -> None:
        """A setting outside all tables is refused."""
        error = self.assertRaises(SettingError, self.read, "listenPort = 1")
        self.assertIn("listenPort must stand below one of the tables [broker], [store]", str(error))

    def test_unknown(self) -> None:
        """Unknown tables and keys are warnings with the nearest name."""
        self.assertEqual(
            list(
                self.read(
                    "[brokr]\na = 1\n[log]\nfile = 1\n[store]\nflushDiskTyp = 1\n"
                    "[broker]\nsendMessageThreadPoolNums = 1"
                ).warnings
            ),
            [
                "smartgo.toml: unknown table [brokr]; did you mean broker?",
                "smartgo.toml, [log]: unknown setting file",
                "smartgo.toml, [store]: unknown setting flushDiskTyp; did you mean flushDiskType?",
            ],
        )

    def test_types(self) -> None:
        """A value of another type is refused like a wrong one."""
        for text in (
            "listenPort = true",
            "listenPort = 1.5",
            "namesrvAddr = [1]",
            "namesrvAddr = 1",
            "brokerName = 7",
            "bindAddress = 1",
        ):
            self.assertRaises(SettingError, self.read, f"[broker]\n{text}")
        self.assertRaises(SettingError, self.read, "[store]\nmessageDelayLevel = 5")
        self.assertRaises(SettingError, self.read, "[store]\ndeleteWhen = [true]")
        self.assertRaises(SettingError, self.read, "[store]\nflushIntervalCommitLog = false")

    def test_dangerous(self) -> None:
        """A setting of RocketMQ that must not be ignored is refused here too."""
        error = self.assertRaises(SettingError, self.read, "[store]\nenableDLegerCommitLog = true")
        self.assertIn("smartgo.toml, [store]: enableDLegerCommitLog=true is not supported", str(error))
        self.assertEqual(self.read("[store]\nenableDLegerCommitLog = false").warnings, [])

    def test_empty(self) -> None:
        """An empty text is as good as none for a setting that may be absent."""
        self.assertEqual(self.read("[tls.server]\ncertPath = ''").tls.server_cert_path, None)

    def test_not_toml(self) -> None:
        """A file that is no TOML names itself."""
        for data in (b"[broker", b"\xff\xfe"):
            error = self.assertRaises(SettingError, read, data, "smartgo.toml")
            self.assertTrue(str(error).startswith("smartgo.toml: "), str(error))

    def test_other_program(self) -> None:
        """A broker leaves the registry's table of a shared file alone."""
        self.assertEqual(self.read("[registry]\nlistenPort = 1", BROKER).registry.listen_port, 9876)


class OriginTests(SynchronousTestCase):
    """The source of each value, and the order of sources."""

    def test_precedence(self) -> None:
        """A flag beats the file, the file the environment, the environment the default."""
        self.assertEqual(load(surroundings()).broker.namesrv_addr, ())
        self.assertEqual(read(NAMESRV_ADDR="a:1").broker.namesrv_addr, ("a:1",))
        self.assertEqual(read("namesrvAddr=b:1", NAMESRV_ADDR="a:1").broker.namesrv_addr, ("b:1",))
        flags = {"namesrvAddr": "c:1"}
        self.assertEqual(read("namesrvAddr=b:1", flags=flags, NAMESRV_ADDR="a:1").broker.namesrv_addr, ("c:1",))

    def test_origins(self) -> None:
        """Each setting tells its origin."""
        configuration = read("\nlistenPort=1234", flags={"brokerName": "x"}, NAMESRV_ADDR="a:1")
        origins = configuration.origins
        self.assertEqual(origins["broker", "listenPort"], Origin("file", "broker.conf, line 2"))
        self.assertEqual(origins["broker", "brokerName"], Origin("flag", "brokerName"))
        self.assertEqual(origins["broker", "namesrvAddr"], Origin("environment", "NAMESRV_ADDR"))
        self.assertEqual(origins["store", "flushDiskType"], Origin("default"))
        self.assertEqual(str(origins["broker", "namesrvAddr"]), "environment NAMESRV_ADDR")
        self.assertEqual(len(origins), sum(len(settings_of(table)) for table in BROKER))

    def test_flags(self) -> None:
        """A flag may name its table; an unknown one is refused with the nearest."""
        configuration = load(surroundings(), ALL, flags={"listenPort": "1000", "registry.listenPort": "2000"})
        self.assertEqual((configuration.broker.listen_port, configuration.registry.listen_port), (1000, 2000))
        self.assertEqual(load(surroundings(), flags={"tls.enable": "true"}).tls.client_enable, True)
        error = self.assertRaises(SettingError, load, surroundings(), ALL, "", None, {"listenport": "1"})
        self.assertEqual(str(error), "command line: unknown setting listenport; did you mean listenPort?")

    def test_bad_environment(self) -> None:
        """A wrong variable is named."""
        error = self.assertRaises(SettingError, read, NAMESRV_ADDR="nowhere")
        self.assertTrue(
            str(error).startswith("environment NAMESRV_ADDR: namesrvAddr=nowhere is not allowed"), str(error)
        )


class ShowTests(SynchronousTestCase):
    """Settings as the config requests answer them."""

    def test_units(self) -> None:
        """Values are shown in the file's unit and spelling."""
        store = dict(show("store", load(surroundings()).store))
        self.assertEqual(store["flushIntervalCommitLog"], "500")
        self.assertEqual((store["fileReservedTime"], store["deleteWhen"]), ("72", "04"))
        self.assertEqual((store["checkCRCOnRead"], store["mappedFileSizeCommitLog"]), ("false", ""))
        broker = dict(show("broker", read("namesrvAddr=a:1;b:2").broker))
        self.assertEqual(
            (broker["namesrvAddr"], broker["fastPort"], broker["brokerIP1"]), ("a:1;b:2", "true", "127.0.0.1")
        )

    def test_read_back(self) -> None:
        """What is shown of a configuration, but for secrets, gives the same one again."""
        before = read(BROKER_CONF)
        lines = [f"{name}={value}" for table in BROKER for name, value in show(table, getattr(before, table))]
        after = read("\n".join(lines))
        for table in BROKER:
            self.assertEqual(getattr(after, table), getattr(before, table))

    def test_changed(self) -> None:
        """Settings can be read anew into a copy, by the same rules."""
        broker = BrokerConfig()
        changed = with_settings("broker", broker, [("traceOn", "false"), ("defaultTopicQueueNums", "3")], "remote")
        self.assertEqual((changed.trace_on, changed.default_topic_queue_nums, broker.trace_on), (False, 3, True))
        self.assertRaises(SettingError, with_settings, "broker", broker, [("traceOn", "no")], "remote")
        error = self.assertRaises(SettingError, with_settings, "broker", broker, [("tracOn", "no")], "remote")
        self.assertEqual(str(error), "remote: unknown setting tracOn; did you mean traceOn?")
