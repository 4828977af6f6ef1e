"""
Every setting of smartgo, by table: its name, type, default, unit and range.

The names in files are RocketMQ's (C{flushDiskType}) where RocketMQ has the setting, and so are the defaults, unless
docs/spec/reliability asks for more; the attributes here are the same names in lower case with underscores. In the code
durations are seconds and sizes bytes, whatever the unit in the file.

Longer than 400 lines because it is one declarative list, in which every setting is found in one place.

Sources: C{BrokerConfig}, C{MessageStoreConfig}, C{NettyServerConfig}, C{NamesrvConfig} and C{TlsSystemConfig} of
RocketMQ 4.9.8; the limits are L1 to L18 of docs/spec/reliability.
"""

from __future__ import annotations

from smartgo.config.fields import Table, file_name, setting
from smartgo.config.kinds import (
    Address,
    AdvertisedAddresses,
    Choice,
    Duration,
    Host,
    Integer,
    Levels,
    Name,
    Path,
    Port,
    PortOrSwitch,
    Size,
    Switch,
    Text,
)
from smartgo.config.listkinds import Addresses, Hours, NetworkList
from smartgo.config.receivers import AlertReceiver, Receivers
from smartgo.schema.topics import QUEUE_LIMIT

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30
_DAY_MS = 86_400_000

OPS_PORT = 10913
"""The default port of the REST API and the console: a broker's default port + 2."""


class BrokerConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The broker's identity, its addresses, its registries, and what it allows."""

    broker_cluster_name: str = setting("DefaultCluster", Name("The cluster this broker belongs to."))
    broker_name: str = setting(
        "", Name("The name of this broker; a master and its slaves share it.", otherwise="the host's name")
    )
    broker_id: int = setting(0, Integer("0 for a master, above 0 for a slave."))
    broker_role: str = setting(
        "ASYNC_MASTER",
        Choice(
            "The role: a master that acknowledges at once, a master that waits for a slave, or a slave.",
            words=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        ),
    )
    broker_permission: int = setting(
        6, Integer("Permission of the whole broker: 4 is read, 2 is write, 6 is both.", high=7)
    )

    listen_port: int = setting(10911, Port("TCP port for clients."))
    fast_port: bool | int = setting(
        True,
        PortOrSwitch(
            "The second port ('VIP channel'), which serves all requests except pulls: true for listenPort - 2,"
            " false for none, or a port.",
        ),
    )
    bind_address: str = setting(
        "127.0.0.1",
        Host("The address to listen on. Any address other than loopback requires access control or allowInsecure."),
    )
    allow_insecure: bool = setting(
        False, Switch("Allow listening on other than loopback addresses although clients are not authenticated.")
    )
    broker_ip1: str = setting(
        "",
        Host(
            "The address that is advertised to clients; it is also part of every message id.",
            otherwise="bindAddress, or if that is a wildcard the local address of the connection to the registry",
            names=True,
        ),
    )
    broker_ip2: str = setting(
        "", Host("The address that is advertised to slaves for replication.", otherwise="brokerIP1", names=True)
    )

    advertised_addresses: str = setting(
        "",
        AdvertisedAddresses(
            "Addresses that smartgo's registry advertises instead of brokerIP1, by the client's network or the registry"
            " address that it uses, such as 10.0.0.0/8=10.0.0.5:10911;@192.0.2.1=broker.example.com:10911.",
            otherwise="none",
        ),
    )

    namesrv_addr: tuple[str, ...] = setting(
        (), Addresses("The registries to register with.", otherwise="NAMESRV_ADDR of the environment, or none")
    )
    register_name_server_period: float = setting(
        30.0, Duration("Time between two registrations.", low=10_000, high=60_000, clamp=True)
    )
    register_broker_timeout_mills: float = setting(
        6.0, Duration("How long to wait for a registry's answer.", low=1, high=600_000)
    )
    force_register: bool = setting(
        True, Switch("Register even if nothing changed; otherwise ask the registry first whether it is needed.")
    )
    compressed_register: bool = setting(False, Switch("Compress the topic table of a registration."))

    auto_create_topic_enable: bool = setting(True, Switch("Create unknown topics on the first send."))
    default_topic_queue_nums: int = setting(
        8, Integer("Maximum number of queues of a topic that is created automatically.", low=1, high=1024)
    )
    auto_create_subscription_group: bool = setting(
        True, Switch("Create unknown consumer groups when they are first used.")
    )
    cluster_topic_enable: bool = setting(
        True, Switch("Use the topic with the name of the cluster as a template for new topics.")
    )
    broker_topic_enable: bool = setting(
        True, Switch("Use the topic with the name of the broker as a template for new topics.")
    )
    trace_topic_enable: bool = setting(False, Switch("Create the topic for message traces at the start."))
    msg_trace_topic_name: str = setting("RMQ_SYS_TRACE_TOPIC", Name("The topic for message traces."))
    trace_on: bool = setting(True, Switch("Tell producers to send message traces."))
    region_id: str = setting("DefaultRegion", Name("The region in message traces."))
    otel_endpoint: str = setting(
        "",
        Text(
            "The OTLP/HTTP endpoint that OpenTelemetry spans of stored and delivered messages are sent to, such as"
            " http://127.0.0.1:4318; it needs the extra otel. Everything else is set by OpenTelemetry's own variables.",
            pattern=r"(?:https?://[\x21-\x7e]{1,1000})?",
            says="an http or https URL",
            otherwise="none: no spans are made",
        ),
    )

    long_polling_enable: bool = setting(
        True,
        Switch("Hold a pull that finds no message as long as its client allows, else for shortPollingTimeMills."),
    )
    short_polling_time_mills: float = setting(
        1.0,
        Duration(
            "How long a pull that finds no message is held without long polling, or if too many are held already.",
            low=1,
            high=600_000,
        ),
    )
    long_polling_max_time_mills: float = setting(
        60.0,
        Duration(
            "Maximum time that a pull that finds no message is held, whatever its client allows.", low=1, high=600_000
        ),
    )
    slave_read_enable: bool = setting(False, Switch("Redirect consumers to a slave for old messages."))
    enable_property_filter: bool = setting(True, Switch("Allow SQL92 filters."))
    filter_support_retry: bool = setting(False, Switch("Apply SQL92 filters to retried messages too."))
    notify_consumer_ids_changed_enable: bool = setting(
        True, Switch("Tell consumers at once when a member joins or leaves their group.")
    )
    disable_consume_if_consumer_read_slowly: bool = setting(
        False, Switch("Stop delivery to a group whose lag exceeds consumerFallbehindThreshold.")
    )
    consumer_fallbehind_threshold: int = setting(
        16 * _GIB, Size("The lag in bytes; see disableConsumeIfConsumerReadSlowly.")
    )
    flush_consumer_offset_interval: float = setting(
        5.0, Duration("Time between two writes of the consumer offsets to disk.", low=100, high=600_000)
    )
    store_reply_message_enable: bool = setting(True, Switch("Store the replies of request-reply calls."))

    reject_transaction_message: bool = setting(False, Switch("Refuse transactional messages."))
    transaction_check_interval: float = setting(
        60.0, Duration("Time between two rounds of transaction check-backs.", low=100, high=_DAY_MS)
    )
    transaction_time_out: float = setting(
        6.0, Duration("Age of an undecided transaction message before its first check-back.", high=_DAY_MS)
    )
    transaction_check_max: int = setting(
        15, Integer("Check-backs before an undecided transaction message is given up.", high=1000)
    )

    broker_fast_failure_enable: bool = setting(True, Switch("Refuse requests that have waited too long."))
    wait_time_mills_in_send_queue: float = setting(
        0.2, Duration("Maximum waiting time of a send.", low=1, high=600_000)
    )
    wait_time_mills_in_pull_queue: float = setting(
        5.0, Duration("Maximum waiting time of a pull.", low=1, high=600_000)
    )
    wait_time_mills_in_heartbeat_queue: float = setting(
        31.0, Duration("Maximum waiting time of a heartbeat.", low=1, high=600_000)
    )
    wait_time_mills_in_transaction_queue: float = setting(
        3.0, Duration("Maximum waiting time of a commit or rollback.", low=1, high=600_000)
    )
    start_accept_send_request_time_stamp: int = setting(
        0, Integer("Refuse sends before this time, in milliseconds since 1970.")
    )

    acl_enable: bool = setting(False, Switch("Require an access key and a signature from every client."))
    rocketmq_home: str = setting(
        "",
        Path(
            "The directory with conf/, which has the access keys.",
            otherwise="ROCKETMQ_HOME or SMARTGO_HOME of the environment, or the home directory",
        ),
    )

    @property
    def fast_listen_port(self) -> int | None:
        """The fast port as a number; C{None} where there is none."""
        if self.fast_port is True:
            return self.listen_port - 2 if self.listen_port > 2 else None
        return None if self.fast_port is False else self.fast_port

    @property
    def is_slave(self) -> bool:
        """Tell whether the role is SLAVE."""
        return self.broker_role == "SLAVE"


class StoreConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The store: directories, files, flushing, retention, index."""

    store_path_root_dir: str = setting(
        "", Path("The directory of the store.", otherwise="store below SMARTGO_HOME or the home directory")
    )
    store_path_commit_log: str = setting(
        "",
        Path(
            "The directory of the CommitLog; it must lie below storePathRootDir.",
            otherwise="commitlog below storePathRootDir",
        ),
    )
    flush_disk_type: str = setting(
        "ASYNC_FLUSH",
        Choice(
            "Acknowledge a send when its bytes are in memory (ASYNC_FLUSH), or on disk (SYNC_FLUSH).",
            words=("ASYNC_FLUSH", "SYNC_FLUSH"),
        ),
    )
    flush_interval_commit_log: float = setting(
        0.5, Duration("Time between two flushes under ASYNC_FLUSH.", low=10, high=60_000)
    )
    sync_flush_timeout: float = setting(
        5.0,
        Duration(
            "How long a send waits for its flush before it is answered with FLUSH_DISK_TIMEOUT.", low=1, high=600_000
        ),
    )
    dispatch_after_flush: bool | None = setting(
        None,
        Switch("Deliver messages only when they are on disk.", otherwise="true under SYNC_FLUSH, else false"),
    )
    on_store_error: str = setting(
        "readonly",
        Choice(
            "After a failed flush: serve only reads, or end the process with status 74.", words=("readonly", "exit")
        ),
    )
    scrub_rate: int = setting(
        _MIB,
        Size(
            "Bytes per second at which the whole log is read and checked once a week, more where a week is not enough;"
            " 0: only on request.",
            low=0,
            high=_GIB,
        ),
    )
    mapped_file_size_commit_log: int | None = setting(
        None,
        Size(
            "Length of a CommitLog file.",
            aliases=("mapedFileSizeCommitLog",),
            otherwise="the length of the existing files, or 1 GiB",
            low=64 * _KIB,
            high=(1 << 31) - 1,
        ),
    )
    mapped_file_size_consume_queue: int | None = setting(
        None,
        Size(
            "Length of a consume queue file; rounded up to a multiple of 20.",
            aliases=("mapedFileSizeConsumeQueue",),
            otherwise="the length of the existing files, or 6000000 bytes",
            low=20,
            high=_GIB,
        ),
    )
    max_message_size: int = setting(
        4 * _MIB, Size("The largest message body, and the largest batch.", low=1 * _KIB, high=512 * _MIB)
    )
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        Levels("The delays of the delay levels, level 1 first."),
    )
    flush_delay_offset_interval: float = setting(
        1.0,
        Duration(
            "Time between two writes of the delivery offsets of delayed messages to disk. Deliveries after the last"
            " write are repeated after a crash.",
            low=100,
            high=600_000,
        ),
    )
    timer_wheel_enable: bool = setting(
        True, Switch("Take messages with a delivery time (TIMER_DELIVER_MS and the like), and deliver them then.")
    )
    timer_max_delay_sec: float = setting(
        3_456_000.0,
        Duration("How far ahead a delivery time may be; RocketMQ's default is 3 days.", per="s", low=1, high=3_456_000),
    )
    recall_message_enable: bool = setting(
        True, Switch("Let producers recall a timed message that was not delivered yet; RocketMQ's default is false.")
    )
    delete_when: tuple[int, ...] = setting((4,), Hours("The hours of the day at which expired files are removed."))
    file_reserved_time: float = setting(
        259_200.0, Duration("How long CommitLog files are kept after their last message.", per="h", low=1, high=87_600)
    )
    disk_max_used_space_ratio: int = setting(
        75,
        Integer("Disk use in percent above which old files are removed early.", low=10, high=95, clamp=True),
    )
    clean_file_forcibly_enable: bool = setting(
        True, Switch("Remove the oldest files, whatever their age, above diskSpaceCleanForciblyRatio.")
    )
    disk_space_clean_forcibly_ratio: int = setting(
        85,
        Integer(
            "Disk use in percent above which the oldest files are removed, whatever their age.",
            low=30,
            high=85,
            clamp=True,
        ),
    )
    disk_space_warning_level_ratio: int = setting(
        90, Integer("Disk use in percent above which sends are refused.", low=35, high=90, clamp=True)
    )
    disk_free_minimum: int = setting(
        _GIB,
        Size(
            "Free space on the disk below which sends are refused, and the oldest files are removed as above"
            " diskSpaceCleanForciblyRatio."
        ),
    )
    max_log_total_size: int | None = setting(
        None,
        Size(
            "Total size of the CommitLog files above which the oldest are removed, whatever their age.",
            otherwise="any size",
            low=128 * _KIB,
        ),
    )
    clean_resource_interval: float = setting(
        10.0, Duration("Time between two searches for files to remove.", low=100, high=3_600_000)
    )
    delete_commit_log_files_interval: float = setting(
        0.1, Duration("Time between the removals of two CommitLog files.", low=0, high=60_000)
    )
    delete_consume_queue_files_interval: float = setting(
        0.1, Duration("Time between the removals of two batches of consume queue files.", low=0, high=60_000)
    )
    destroy_maped_file_interval_forcibly: float = setting(
        120.0,
        Duration(
            "How long a CommitLog file that a slave or a client is being sent is kept beyond its time.",
            low=0,
            high=3_600_000,
        ),
    )
    message_index_enable: bool = setting(True, Switch("Index messages by key."))
    max_hash_slot_num: int = setting(5_000_000, Integer("Hash slots of an index file.", low=16, high=100_000_000))
    max_index_num: int = setting(20_000_000, Integer("Entries of an index file.", low=16, high=90_000_000))
    default_query_max_num: int = setting(32, Integer("Maximum results of a search by unique key.", low=1, high=1024))
    max_msgs_num_batch: int = setting(64, Integer("Maximum results of a search by key.", low=1, high=1024))
    access_message_in_memory_max_ratio: int = setting(
        40,
        Integer(
            "Messages this close to the end of the log count as in memory, in percent of the machine's memory.",
            low=1,
            high=90,
        ),
    )
    max_transfer_bytes_on_message_in_memory: int = setting(
        256 * _KIB, Size("Maximum bytes of one pull from memory.", low=1, high=8 * _MIB)
    )
    max_transfer_count_on_message_in_memory: int = setting(
        32, Integer("Maximum messages of one pull from memory.", low=1, high=1024)
    )
    max_transfer_bytes_on_message_in_disk: int = setting(
        64 * _KIB, Size("Maximum bytes of one pull from disk.", low=1, high=8 * _MIB)
    )
    max_transfer_count_on_message_in_disk: int = setting(
        8, Integer("Maximum messages of one pull from disk.", low=1, high=1024)
    )
    check_crc_on_recover: bool = setting(True, Switch("Check the CRC of message bodies during recovery."))
    check_crc_on_read: bool = setting(False, Switch("Check the CRC of message bodies on every pull."))
    offset_check_in_slave: bool = setting(
        False,
        Switch("A slave, too, tells a client whose pull offset is out of range which offset to use, as a master does."),
    )

    @property
    def dispatches_after_flush(self) -> bool:
        """Tell whether consumers see messages only when these are on disk (reliability D6)."""
        if self.dispatch_after_flush is None:
            return self.flush_disk_type == "SYNC_FLUSH"
        return self.dispatch_after_flush


_KEY = r"[\x21-\x7e]{7,256}"
_KEY_SAYS = "7 to 256 letters, digits and signs of ASCII, without blanks"


class HaConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """Replication from a master to its slaves."""

    ha_listen_port: int | None = setting(None, Port("TCP port for slaves.", otherwise="listenPort + 1"))
    ha_bind_address: str = setting(
        "",
        Host(
            "The address to listen on for slaves. Any address other than loopback requires allowInsecure.",
            otherwise="bindAddress",
        ),
    )
    ha_advertised_addresses: str = setting(
        "",
        AdvertisedAddresses(
            "Addresses that smartgo's registry advertises to slaves instead of brokerIP2 and haListenPort, as"
            " advertisedAddresses does for clients.",
            otherwise="none",
        ),
    )
    ha_allow: tuple[str, ...] = setting(
        (),
        NetworkList(
            "Who may replicate from a master; such a peer gets every message, and counts as a slave under SYNC_MASTER.",
            otherwise="this machine if haBindAddress is a loopback address, else everybody",
        ),
    )
    ha_access_key: str | None = setting(
        None,
        Text(
            "The name of the key that a master requires from its slaves; the same on both sides.",
            pattern=_KEY,
            says=_KEY_SAYS,
            secret=True,
            otherwise="none: slaves need no key",
        ),
    )
    ha_secret_key: str | None = setting(
        None, Text("The secret of that key.", pattern=_KEY, says=_KEY_SAYS, secret=True, otherwise="none")
    )
    ha_master_address: str | None = setting(
        None, Address("The address from which a slave replicates.", otherwise="the address from the registry")
    )
    master_address: str | None = setting(
        None,
        Address(
            "The main port of a slave's master, for topics, groups and offsets.",
            otherwise="the address from the registry, else the port before that of haMasterAddress",
        ),
    )
    ha_ack_mode: str = setting(
        "append",
        Choice(
            "What a slave acknowledges to its master: appended bytes, or bytes on disk.",
            words=("append", "flush"),
        ),
    )
    ha_begin_anew: bool = setting(
        False,
        Switch("A slave whose log ends before its master's begins starts anew, though its messages have not expired."),
    )
    ha_send_heartbeat_interval: float = setting(
        5.0, Duration("Time between two heartbeats on an idle replication connection.", low=100, high=600_000)
    )
    ha_housekeeping_interval: float = setting(
        20.0, Duration("Idle time after which a replication connection is closed.", low=100, high=600_000)
    )
    ha_transfer_batch_size: int = setting(
        32 * _KIB, Size("Bytes sent to a slave at once.", low=1 * _KIB, high=4 * _MIB)
    )
    ha_slave_fallbehind_max: int = setting(
        256 * _MIB, Size("Replication lag above which a slave does not count for SYNC_MASTER.", low=1 * _MIB)
    )
    slave_timeout: float = setting(
        3.0, Duration("How long a send waits for a slave under SYNC_MASTER.", low=1, high=600_000)
    )


class RegistryConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The registry (name server)."""

    listen_port: int = setting(9876, Port("TCP port for brokers and clients."))
    bind_address: str = setting(
        "127.0.0.1",
        Host("The address to listen on. Any address other than loopback requires access control or allowInsecure."),
    )
    allow_insecure: bool = setting(
        False, Switch("Allow listening on other than loopback addresses although clients are not authenticated.")
    )
    acl_enable: bool = setting(
        False, Switch("Require an access key and a signature from every client, and an administrator's from brokers.")
    )
    kv_config_path: str = setting(
        "",
        Path(
            "The file of the key-value settings, which include ordered topics.",
            otherwise="namesrv/kvConfig.json below SMARTGO_HOME or the home directory",
        ),
    )
    order_message_enable: bool = setting(False, Switch("Send the queue order of ordered topics with routes."))
    server_channel_max_idle_time_seconds: float = setting(
        120.0, Duration("Idle time after which a connection is closed.", per="s", low=1, high=86_400)
    )
    scan_not_active_broker_interval: float = setting(
        10.0, Duration("Time between two scans for brokers that stopped sending heartbeats.", low=100, high=120_000)
    )
    admin_allow: tuple[str, ...] = setting(
        (),
        NetworkList(
            "Who may change write permissions of brokers, routes and key-value settings, and may see paths in the"
            " registry's settings; this machine always may.",
            otherwise="only this machine",
        ),
    )
    broker_allow: tuple[str, ...] = setting(
        (), NetworkList("From where brokers may register; this machine always may.", otherwise="everywhere")
    )
    max_route_topics: int = setting(
        200_000,
        Integer(
            "Maximum number of registered topics. One address may register at most as many as are still free: half of"
            " an empty table.",
            low=1,
        ),
    )
    max_route_brokers: int = setting(10_000, Integer("Maximum number of registered broker addresses.", low=1))
    max_kv_size: int = setting(
        16 * _MIB, Size("Maximum size of all key-value settings, names and values together.", low=1 * _KIB, high=_GIB)
    )


class AccessConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """Access control: where its rules are, and the key with which this process signs its own requests."""

    acl_path: str = setting(
        "",
        Path(
            "The directory with plain_acl.yml and acl/*.yml, which are read if aclEnable is true, and again when they"
            " change.",
            otherwise="conf below rocketmqHome",
        ),
    )
    acl_check_producer_groups: bool = setting(
        False,
        Switch(
            "Whether an account needs PUB in groupPerms, or in defaultGroupPerm, for a producer group that a client of"
            " it joins. RocketMQ asks for nothing: each account may join and is asked about the group's undecided"
            " transactions."
        ),
    )
    access_key: str | None = setting(
        None,
        Text(
            "The key with which this process signs its requests to registries, brokers and its master. Where these"
            " have access control, it must be an administrator's.",
            pattern=_KEY,
            says=_KEY_SAYS,
            secret=True,
            otherwise="none; with aclEnable a key that is valid in this process alone",
        ),
    )
    secret_key: str | None = setting(
        None, Text("The secret of that key.", pattern=_KEY, says=_KEY_SAYS, secret=True, otherwise="none")
    )
    access_key_file: str | None = setting(
        None,
        Path(
            "A file with that key and its secret, in place of accessKey and secretKey: accessKey and secretKey in YAML,"
            " as in RocketMQ's conf/tools.yml.",
            otherwise="none",
        ),
    )


class TlsConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """TLS of the ports of broker and registry, and of connections to them."""

    server_mode: str | None = setting(
        None,
        Choice(
            "Accept no TLS, accept TLS and plain connections, or require TLS.",
            words=("disabled", "permissive", "enforcing"),
            otherwise="disabled without a certificate, enforcing if clients must present one, else permissive",
        ),
    )
    server_cert_path: str | None = setting(None, Path("The certificate chain, PEM.", otherwise="none"))
    server_key_path: str | None = setting(
        None, Path("The private key, PEM; not readable by other users.", otherwise="none")
    )
    server_key_password: str | None = setting(None, Text("The private key's password.", secret=True, otherwise="none"))
    server_trust_cert_path: str | None = setting(
        None, Path("CA certificates that client certificates are checked against, PEM.", otherwise="none")
    )
    server_need_client_auth: str = setting(
        "none",
        Choice(
            "Whether clients present a certificate. With require, tls.server.mode must be enforcing, which is then its"
            " default.",
            words=("none", "optional", "require"),
        ),
    )
    client_enable: bool = setting(
        False, Switch("Use TLS for connections to registries and other brokers.", aliases=("useTLS",))
    )
    client_cert_path: str | None = setting(None, Path("The client certificate to present, PEM.", otherwise="none"))
    client_key_path: str | None = setting(
        None, Path("The private key of the client certificate, PEM.", otherwise="none")
    )
    client_key_password: str | None = setting(None, Text("The password of that key.", secret=True, otherwise="none"))
    client_trust_cert_path: str | None = setting(
        None, Path("CA certificates that servers are checked against, PEM.", otherwise="the system's")
    )

    @property
    def mode(self) -> str:
        """The mode in force: C{disabled}, C{permissive} or C{enforcing}."""
        if self.server_mode is not None:
            return self.server_mode
        if self.server_cert_path is None:
            return "disabled"
        return "enforcing" if self.server_need_client_auth == "require" else "permissive"


class LimitsConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """Limits on what clients may use (reliability L1 to L18)."""

    frame_max_length: int = setting(
        16 * _MIB,
        Size(
            "Maximum length of a frame.",
            aliases=("com.rocketmq.remoting.frameMaxLength",),
            low=64 * _KIB,
            high=_GIB,
        ),
    )
    header_max_length: int = setting(
        256 * _KIB, Size("Maximum length of a frame header.", low=4 * _KIB, high=15 * _MIB)
    )
    max_connections: int = setting(10_000, Integer("Maximum connections of one port.", low=1))
    max_connections_per_address: int = setting(
        1024, Integer("Maximum connections from one address; loopback addresses are not limited.", low=1)
    )
    first_frame_timeout: float = setting(
        10.0, Duration("Maximum time until a new connection has sent its first frame.", per="s", low=1, high=600)
    )
    frame_timeout: float = setting(
        30.0,
        Duration(
            "Maximum time to receive a frame; a frame that keeps arriving at frameMinimumRate is given longer.",
            per="s",
            low=1,
            high=600,
        ),
    )
    frame_minimum_rate: int = setting(
        1 * _KIB,
        Size(
            "Minimum rate, in bytes per second, at which an unfinished frame must keep arriving to be given longer than"
            " frameTimeout.",
            low=1,
        ),
    )
    server_channel_max_idle_time_seconds: float = setting(
        120.0, Duration("Idle time after which a connection to a broker is closed.", per="s", low=1, high=86_400)
    )
    max_requests_in_flight: int = setting(
        1024, Integer("Maximum unanswered requests of a connection; held pulls are not counted.", low=1)
    )
    unsent_pause_size: int = setting(
        1 * _MIB, Size("Unsent bytes above which reading from a connection pauses.", low=64 * _KIB)
    )
    unsent_resume_size: int = setting(256 * _KIB, Size("Unsent bytes below which reading resumes.", low=1 * _KIB))
    unsent_timeout: float = setting(
        60.0,
        Duration(
            "How long a connection may have more than unsentPauseSize unsent bytes before it is closed.",
            per="s",
            low=1,
            high=3600,
        ),
    )
    unsent_max_size: int = setting(32 * _MIB, Size("Unsent bytes above which a connection is closed.", low=1 * _MIB))
    memory_budget: int | None = setting(
        None,
        Size(
            "Memory for unfinished requests of all peers, and for answers that they have not received. When it runs"
            " short, reading from connections that use much of it pauses. At least four times frameMaxLength.",
            low=16 * _MIB,
            otherwise="512 MiB, or a quarter of memory, whichever is less",
        ),
    )
    undone_sends_max_size: int | None = setting(
        None,
        Size(
            "Maximum bytes of all sends that wait for disk or slave.",
            low=1 * _MIB,
            otherwise="512 MiB, or a quarter of memory",
        ),
    )
    max_held_pulls: int = setting(
        65_536,
        Integer(
            "Maximum held pulls of all clients. One address may hold no more than remain free, so at most half of"
            " them.",
            low=1,
        ),
    )
    max_held_pulls_per_connection: int = setting(16_384, Integer("Maximum held pulls of a connection.", low=1))
    max_topics: int = setting(
        20_000,
        Integer("Maximum topics created by sends; administrators may create the same number in addition.", low=1),
    )
    max_topics_per_second: int = setting(
        10,
        Integer(
            "Maximum new topics per second from one address. An administrator may create a burst of 1000. Loopback"
            " addresses are not limited.",
            low=1,
        ),
    )
    max_queues_per_topic: int = setting(1024, Integer("Maximum queues of a topic.", low=1, high=QUEUE_LIMIT))
    max_queue_locks: int = setting(
        200_000,
        Integer("Maximum queue locks of orderly consumers; one address may hold no more than remain free.", low=1),
    )
    max_groups: int = setting(
        20_000,
        Integer(
            "Maximum consumer groups. Clients of one address may create, by first use, no more than remain free: half"
            " of an empty table.",
            low=1,
        ),
    )
    max_groups_per_second: int = setting(
        10,
        Integer(
            "Maximum new consumer groups per second from one address, after a burst of 100. An administrator may create"
            " a burst of 1000. Loopback addresses are not limited.",
            low=1,
        ),
    )
    max_offsets: int = setting(1_000_000, Integer("Maximum consumer offsets, one for each group and queue.", low=1))
    max_pending_transactions: int = setting(
        200_000,
        Integer("Maximum undecided transactions: half messages are refused from there on.", low=1),
    )
    subscriptions_max_size: int = setting(
        128 * _MIB,
        Size(
            "Memory for the subscriptions of connected consumers; one address may use no more than remains free.",
            low=1 * _MIB,
        ),
    )
    max_groups_per_connection: int = setting(
        1024, Integer("Maximum producer groups, and consumer groups, of one connection.", low=1)
    )


_LISTEN = r"on|off|(?:(?:[0-9.]{7,15}|localhost|\[[0-9a-fA-F:.]{2,45}\]):)?[0-9]{1,5}"
_HOSTS = r"(?:[A-Za-z0-9._-]{1,253}(?::[0-9]{1,5})?(?:;|$))*"
_IPS = r"(?:[0-9a-fA-F:.]{2,45}(?:;|$))*"


class OpsConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The REST API and the console."""

    ops_listen: str | None = setting(
        None,
        Text(
            "Address of the REST API and the console: on for 127.0.0.1 and the broker's port + 2 (10913), off for none,"
            " or an address. Any address other than loopback requires a token, and TLS or opsAllowInsecure.",
            pattern=_LISTEN,
            says="on, off, PORT or ADDRESS:PORT",
            otherwise="on for registry and broker in one process, else off",
        ),
    )
    ops_allow_insecure: bool = setting(
        False, Switch("Serve on other than loopback addresses without TLS, for example behind a TLS proxy.")
    )
    ops_tokens: str = setting(
        "",
        Text(
            "Tokens of the API in addition to those created over it; separate several with ;.",
            pattern=r"[A-Za-z0-9._:+;-]{0,8192}",
            says="NAME:SCOPES:HASH, SCOPES some of read+publish+admin, HASH the token's SHA-256 in hexadecimal digits",
            secret=True,
            otherwise="none",
        ),
    )
    ops_hosts: str = setting(
        "",
        Text(
            "Host names by which browsers may open the console, besides localhost and addresses; separate several"
            " with ;.",
            pattern=_HOSTS,
            says="NAME or NAME:PORT, several separated by ;",
            otherwise="none",
        ),
    )
    ops_broker_networks: tuple[str, ...] = setting(
        (),
        NetworkList(
            "The API connects only to brokers in these networks, and to registries. When set, brokers registered under"
            " a host name cannot be reached.",
            otherwise="everywhere",
        ),
    )
    ops_trusted_proxies: str = setting(
        "",
        Text(
            "Addresses of proxies whose X-Forwarded-For header is trusted; separate several with ;.",
            pattern=_IPS,
            says="IP addresses, several separated by ;",
            otherwise="none",
        ),
    )
    ops_certificate_scope: str = setting(
        "none",
        Choice(
            "Scope of a client that has no token but presents a certificate signed by a CA in"
            " tls.server.trustCertPath.",
            words=("none", "read", "publish", "admin"),
        ),
    )
    ops_requests_per_second: int = setting(
        200, Integer("Maximum average requests per second of one address.", low=1, high=100_000)
    )
    ops_max_connections: int = setting(
        512, Integer("Maximum connections to the API; above it idle ones are closed.", low=8)
    )
    ops_max_connections_per_address: int = setting(
        128,
        Integer(
            "Maximum connections to the API from one address not in opsTrustedProxies; idle ones are closed.",
            low=4,
        ),
    )
    ops_max_requests: int = setting(64, Integer("Maximum concurrent requests of the API.", low=4))
    ops_max_streams: int = setting(
        64,
        Integer("Maximum concurrent streams and exports of the API; one client gets at most a quarter of them.", low=4),
    )
    ops_path: str = setting(
        "",
        Path(
            "The directory of tokens, audit log and history.",
            otherwise="ops below storePathRootDir; for a registry alone, below the directory of kvConfigPath",
        ),
    )
    ops_debug: bool = setting(
        False, Switch("Serve stack traces and memory figures of the process to admins on this machine.")
    )

    alert_receivers: tuple[AlertReceiver, ...] = setting(
        (), Receivers("Where notices of alerts are sent; see the page on alerts.", otherwise="none")
    )
    alert_source: str = setting(
        "",
        Text(
            "The name of this installation in notices of alerts.",
            pattern=r"[^\x00-\x1f\x7f]{0,100}",
            says="text of one line, at most 100 characters",
            otherwise="the host's name",
        ),
    )
    alert_runbooks: str = setting(
        "",
        Text(
            "The address of the page with a section for each alert rule, such as a copy of the page on alerts; notices"
            " link to its anchors, alert-RULE.",
            pattern=r"(?:https?://[\x21-\x7e]{1,1000})?",
            says="an http or https URL",
            otherwise="none: notices name the page of the documents",
        ),
    )

    def place(self, usual: int) -> tuple[str, int] | None:
        """
        Return address and port to serve at; C{None} for nowhere, or where nothing is said.

        @param usual: the port for C{on}.
        """
        text = self.ops_listen
        if text in (None, "off"):
            return None
        address, _, port = text.rpartition(":")
        return address.strip("[]") or "127.0.0.1", usual if text == "on" else int(port)


TABLES: dict[str, type[Table]] = {
    "broker": BrokerConfig,
    "store": StoreConfig,
    "ha": HaConfig,
    "registry": RegistryConfig,
    "access": AccessConfig,
    "tls": TlsConfig,
    "limits": LimitsConfig,
    "ops": OpsConfig,
}
