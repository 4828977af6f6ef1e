"""
Every setting of smartgo, by table: its name, type, default, unit and range.

The names in files are RocketMQ's (C{flushDiskType}) where RocketMQ has the setting, and so are the defaults, unless
docs/spec/reliability asks for more; the attributes here are the same names in lower case with underscores. In the code
durations are seconds and sizes bytes, whatever the unit in the file.

Sources: C{BrokerConfig}, C{MessageStoreConfig}, C{NettyServerConfig}, C{NamesrvConfig} and C{TlsSystemConfig} of
RocketMQ 4.9.8; the limits are L1 to L18 of docs/spec/reliability.
"""

from __future__ import annotations

from smartgo.config.fields import Table, file_name, setting
from smartgo.config.kinds import (
    Address,
    Addresses,
    AdvertisedAddresses,
    Choice,
    Duration,
    Host,
    Hours,
    Integer,
    Levels,
    Name,
    NetworkList,
    Path,
    Port,
    PortOrSwitch,
    Size,
    Switch,
    Text,
)
from smartgo.schema.topics import QUEUE_LIMIT

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30
_DAY_MS = 86_400_000

OPS_PORT = 10913
"""The usual port of API and console: a broker's usual one and 2."""


class BrokerConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """Who the broker is, where it listens and registers, and what it allows."""

    broker_cluster_name: str = setting("DefaultCluster", Name("The cluster this broker belongs to."))
    broker_name: str = setting(
        "", Name("The name of this broker; a master and its slaves share it.", otherwise="the host's name")
    )
    broker_id: int = setting(0, Integer("0 for a master, above 0 for a slave."))
    broker_role: str = setting(
        "ASYNC_MASTER",
        Choice(
            "A master that answers at once, a master that waits for a slave, or a slave.",
            words=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        ),
    )
    broker_permission: int = setting(6, Integer("What the broker as a whole allows: 4 read, 2 write, 6 both.", high=7))

    listen_port: int = setting(10911, Port("TCP port for clients."))
    fast_port: bool | int = setting(
        True,
        PortOrSwitch(
            "The second port ('VIP channel'), where everything but pulling is served: true for listenPort - 2,"
            " false for none, or a port.",
        ),
    )
    bind_address: str = setting(
        "127.0.0.1",
        Host("The address to listen on. Any but a loopback address needs access control, or allowInsecure."),
    )
    allow_insecure: bool = setting(
        False, Switch("Serve on other than loopback addresses although nobody has to say who they are.")
    )
    broker_ip1: str = setting(
        "",
        Host(
            "The address that clients are told to connect to; it is also part of every message id.",
            otherwise="bindAddress, or where that is a wildcard the address that faces the registry",
            names=True,
        ),
    )
    broker_ip2: str = setting(
        "", Host("The address that slaves are told to replicate from.", otherwise="brokerIP1", names=True)
    )

    advertised_addresses: str = setting(
        "",
        AdvertisedAddresses(
            "Other addresses than brokerIP1 that smartgo's registry tells clients, by where they ask from or which of"
            " its addresses they ask at, such as 10.0.0.0/8=10.0.0.5:10911;@192.0.2.1=broker.example.com:10911.",
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
        True, Switch("Register even when nothing changed; else ask first whether it is needed.")
    )
    compressed_register: bool = setting(False, Switch("Compress the topic table of a registration."))

    auto_create_topic_enable: bool = setting(True, Switch("Create unknown topics on the first send to them."))
    default_topic_queue_nums: int = setting(8, Integer("Queues of a topic created so, at most.", low=1, high=1024))
    auto_create_subscription_group: bool = setting(True, Switch("Create unknown consumer groups when they appear."))
    cluster_topic_enable: bool = setting(True, Switch("Let the topic named like the cluster be a template."))
    broker_topic_enable: bool = setting(True, Switch("Let the topic named like the broker be a template."))
    trace_topic_enable: bool = setting(False, Switch("Create the topic for message traces at start."))
    msg_trace_topic_name: str = setting("RMQ_SYS_TRACE_TOPIC", Name("The topic for message traces."))
    trace_on: bool = setting(True, Switch("Tell producers that traces are wanted."))
    region_id: str = setting("DefaultRegion", Name("The region that traces name."))

    long_polling_enable: bool = setting(
        True, Switch("Hold a pull that finds nothing as long as its client allows, else for shortPollingTimeMills.")
    )
    short_polling_time_mills: float = setting(
        1.0,
        Duration(
            "How long a pull that finds nothing is held without long polling, or where too many are held already.",
            low=1,
            high=600_000,
        ),
    )
    long_polling_max_time_mills: float = setting(
        60.0,
        Duration(
            "How long a pull that finds nothing is held at most, whatever its client allows.", low=1, high=600_000
        ),
    )
    slave_read_enable: bool = setting(False, Switch("Let consumers be sent to a slave for old messages."))
    enable_property_filter: bool = setting(False, Switch("Allow SQL92 filters."))
    filter_support_retry: bool = setting(False, Switch("Apply SQL92 filters to retried messages too."))
    notify_consumer_ids_changed_enable: bool = setting(
        True, Switch("Tell consumers at once when a member joins or leaves their group.")
    )
    disable_consume_if_consumer_read_slowly: bool = setting(
        False, Switch("Stop a group that is consumerFallbehindThreshold behind.")
    )
    consumer_fallbehind_threshold: int = setting(16 * _GIB, Size("See disableConsumeIfConsumerReadSlowly."))
    flush_consumer_offset_interval: float = setting(
        5.0, Duration("Time between two savings of the consumer offsets.", low=100, high=600_000)
    )
    store_reply_message_enable: bool = setting(True, Switch("Store the replies of request-reply calls."))

    reject_transaction_message: bool = setting(False, Switch("Refuse transactional messages."))
    transaction_check_interval: float = setting(
        60.0, Duration("Time between two rounds of check-backs.", low=100, high=_DAY_MS)
    )
    transaction_time_out: float = setting(
        6.0, Duration("How old an undecided message is before its first check-back.", high=_DAY_MS)
    )
    transaction_check_max: int = setting(15, Integer("Check-backs before an undecided message is given up.", high=1000))

    broker_fast_failure_enable: bool = setting(
        True, Switch("Refuse requests that have waited too long instead of doing them late.")
    )
    wait_time_mills_in_send_queue: float = setting(0.2, Duration("How long a send may wait.", low=1, high=600_000))
    wait_time_mills_in_pull_queue: float = setting(5.0, Duration("How long a pull may wait.", low=1, high=600_000))
    wait_time_mills_in_heartbeat_queue: float = setting(
        31.0, Duration("How long a heartbeat may wait.", low=1, high=600_000)
    )
    wait_time_mills_in_transaction_queue: float = setting(
        3.0, Duration("How long a commit or rollback may wait.", low=1, high=600_000)
    )
    start_accept_send_request_time_stamp: int = setting(
        0, Integer("Refuse sends before this time, in milliseconds since 1970.")
    )

    acl_enable: bool = setting(False, Switch("Ask every client for an access key and a signature."))
    rocketmq_home: str = setting(
        "",
        Path(
            "Where conf/ with the access keys lies.",
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
        """Whether the role is SLAVE."""
        return self.broker_role == "SLAVE"


class StoreConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """Where and how messages are kept."""

    store_path_root_dir: str = setting(
        "", Path("The directory of the store.", otherwise="store below SMARTGO_HOME or the home directory")
    )
    store_path_commit_log: str = setting(
        "", Path("The directory of the CommitLog; it must lie below storePathRootDir.", otherwise="commitlog below it")
    )
    flush_disk_type: str = setting(
        "ASYNC_FLUSH",
        Choice(
            "Answer a send when its bytes are in memory, or when they are on disk.", words=("ASYNC_FLUSH", "SYNC_FLUSH")
        ),
    )
    flush_interval_commit_log: float = setting(
        0.5, Duration("Time between two flushes under ASYNC_FLUSH.", low=10, high=60_000)
    )
    sync_flush_timeout: float = setting(
        5.0,
        Duration("How long a send waits for its flush before it is answered FLUSH_DISK_TIMEOUT.", low=1, high=600_000),
    )
    dispatch_after_flush: bool | None = setting(
        None,
        Switch("Show messages to consumers only when they are on disk.", otherwise="true under SYNC_FLUSH, else false"),
    )
    on_store_error: str = setting(
        "readonly",
        Choice(
            "After a failed flush: serve reads only, or end the process with status 74.", words=("readonly", "exit")
        ),
    )
    mapped_file_size_commit_log: int | None = setting(
        None,
        Size(
            "Length of a CommitLog file.",
            aliases=("mapedFileSizeCommitLog",),
            otherwise="that of the files that are there, or 1 GiB",
            low=64 * _KIB,
            high=(1 << 31) - 1,
        ),
    )
    mapped_file_size_consume_queue: int | None = setting(
        None,
        Size(
            "Length of a queue file; rounded up to a multiple of 20.",
            aliases=("mapedFileSizeConsumeQueue",),
            otherwise="that of the files that are there, or 6000000 bytes",
            low=20,
            high=_GIB,
        ),
    )
    max_message_size: int = setting(
        4 * _MIB, Size("The largest message body, and the largest batch.", low=1 * _KIB, high=512 * _MIB)
    )
    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        Levels("The delays that messages can ask for, level 1 first."),
    )
    flush_delay_offset_interval: float = setting(
        1.0,
        Duration(
            "Time between two savings of the delivery positions of delayed messages. What was delivered and not saved"
            " is delivered again after a kill.",
            low=100,
            high=600_000,
        ),
    )
    delete_when: tuple[int, ...] = setting((4,), Hours("The hours of the day at which old files are removed."))
    file_reserved_time: float = setting(
        259_200.0, Duration("How long CommitLog files are kept after their last message.", per="h", low=1, high=87_600)
    )
    disk_max_used_space_ratio: int = setting(
        75,
        Integer("Remove old files early when the disk is fuller than this, in percent.", low=10, high=95, clamp=True),
    )
    clean_file_forcibly_enable: bool = setting(
        True, Switch("Remove the oldest files whatever their age when the disk is 85 percent full.")
    )
    message_index_enable: bool = setting(True, Switch("Index messages by key."))
    max_hash_slot_num: int = setting(5_000_000, Integer("Hash slots of an index file.", low=16, high=100_000_000))
    max_index_num: int = setting(20_000_000, Integer("Entries of an index file.", low=16, high=90_000_000))
    default_query_max_num: int = setting(32, Integer("Results of a search by unique key, at most.", low=1, high=1024))
    max_msgs_num_batch: int = setting(64, Integer("Results of a search by key, at most.", low=1, high=1024))
    access_message_in_memory_max_ratio: int = setting(
        40,
        Integer(
            "Messages within this share of memory from the log's end count as in memory, in percent.", low=1, high=90
        ),
    )
    max_transfer_bytes_on_message_in_memory: int = setting(
        256 * _KIB, Size("Bytes of one pull from memory, at most.", low=1, high=8 * _MIB)
    )
    max_transfer_count_on_message_in_memory: int = setting(
        32, Integer("Messages of one pull from memory, at most.", low=1, high=1024)
    )
    max_transfer_bytes_on_message_in_disk: int = setting(
        64 * _KIB, Size("Bytes of one pull from disk, at most.", low=1, high=8 * _MIB)
    )
    max_transfer_count_on_message_in_disk: int = setting(
        8, Integer("Messages of one pull from disk, at most.", low=1, high=1024)
    )
    check_crc_on_recover: bool = setting(True, Switch("Check message bodies during recovery."))
    check_crc_on_read: bool = setting(False, Switch("Check message bodies on every pull."))
    offset_check_in_slave: bool = setting(False, Switch("Let a slave correct the offsets of pulls."))

    @property
    def dispatches_after_flush(self) -> bool:
        """Whether consumers see messages only when these are on disk (reliability D6)."""
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
            "The address to listen on for slaves. Any but a loopback address needs allowInsecure.",
            otherwise="bindAddress",
        ),
    )
    ha_advertised_addresses: str = setting(
        "",
        AdvertisedAddresses(
            "Other addresses than brokerIP2 and haListenPort that smartgo's registry tells slaves, as"
            " advertisedAddresses does for clients.",
            otherwise="none",
        ),
    )
    ha_allow: tuple[str, ...] = setting(
        (),
        NetworkList(
            "Who may replicate from a master. Whoever may gets every message, and counts as a slave under SYNC_MASTER.",
            otherwise="this machine where haBindAddress is a loopback address, else everybody",
        ),
    )
    ha_access_key: str | None = setting(
        None,
        Text(
            "The name of the key that a master asks its slaves for, and a slave's own: the same on both.",
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
        None, Address("Where a slave replicates from.", otherwise="what the registry says")
    )
    master_address: str | None = setting(
        None,
        Address(
            "The main port of a slave's master, for topics, groups and offsets.",
            otherwise="what the registry says, else the port before that of haMasterAddress",
        ),
    )
    ha_ack_mode: str = setting(
        "append",
        Choice(
            "What a slave confirms to its master: what it has appended, or what it has on disk.",
            words=("append", "flush"),
        ),
    )
    ha_send_heartbeat_interval: float = setting(
        5.0, Duration("Time between two heartbeats on an idle replication.", low=100, high=600_000)
    )
    ha_housekeeping_interval: float = setting(
        20.0, Duration("A replication that is silent for so long is ended.", low=100, high=600_000)
    )
    ha_transfer_batch_size: int = setting(
        32 * _KIB, Size("Bytes sent to a slave at once.", low=1 * _KIB, high=4 * _MIB)
    )
    ha_slave_fallbehind_max: int = setting(
        256 * _MIB, Size("A slave that is further behind does not count for SYNC_MASTER.", low=1 * _MIB)
    )
    slave_timeout: float = setting(
        3.0, Duration("How long a send waits for a slave under SYNC_MASTER.", low=1, high=600_000)
    )


class RegistryConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The registry (name server)."""

    listen_port: int = setting(9876, Port("TCP port for brokers and clients."))
    bind_address: str = setting(
        "127.0.0.1",
        Host("The address to listen on. Any but a loopback address needs access control, or allowInsecure."),
    )
    allow_insecure: bool = setting(
        False, Switch("Serve on other than loopback addresses although nobody has to say who they are.")
    )
    kv_config_path: str = setting(
        "",
        Path(
            "The file of the namespaced settings (order topics among them).",
            otherwise="namesrv/kvConfig.json below SMARTGO_HOME or the home directory",
        ),
    )
    order_message_enable: bool = setting(False, Switch("Send the queue order of order topics along with routes."))
    server_channel_max_idle_time_seconds: float = setting(
        120.0, Duration("Connections that are silent for so long are closed.", per="s", low=1, high=86_400)
    )
    scan_not_active_broker_interval: float = setting(
        10.0, Duration("Time between two searches for brokers that have fallen silent.", low=100, high=120_000)
    )
    admin_allow: tuple[str, ...] = setting(
        (),
        NetworkList(
            "Who may change the write permission of brokers, routes and namespaced settings, and sees paths among the"
            " registry's settings; this machine always may.",
            otherwise="this machine alone",
        ),
    )
    broker_allow: tuple[str, ...] = setting(
        (), NetworkList("Where brokers may register from; this machine always may.", otherwise="everywhere")
    )
    max_route_topics: int = setting(
        200_000,
        Integer(
            "Topics that brokers may register, in all. Those of one address may be at most as many as there is room"
            " left: half of an empty table.",
            low=1,
        ),
    )
    max_route_brokers: int = setting(10_000, Integer("Broker addresses that may be registered.", low=1))
    max_kv_size: int = setting(
        16 * _MIB, Size("Namespaced settings in all: names and values together.", low=1 * _KIB, high=_GIB)
    )


class TlsConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """TLS on the ports of broker and registry, and towards them."""

    server_mode: str | None = setting(
        None,
        Choice(
            "Take TLS nowhere, where a client starts it, or insist on it.",
            words=("disabled", "permissive", "enforcing"),
            otherwise="disabled without a certificate, enforcing where clients must show one, else permissive",
        ),
    )
    server_cert_path: str | None = setting(None, Path("The certificate chain, PEM.", otherwise="none"))
    server_key_path: str | None = setting(
        None, Path("The private key, PEM; nobody else may read it.", otherwise="none")
    )
    server_key_password: str | None = setting(None, Text("The private key's password.", secret=True, otherwise="none"))
    server_trust_cert_path: str | None = setting(
        None, Path("The authorities that client certificates are checked against, PEM.", otherwise="none")
    )
    server_need_client_auth: str = setting(
        "none",
        Choice(
            "Whether clients show a certificate. With require nobody gets in without one: tls.server.mode must then be"
            " enforcing, which it is unless it is set.",
            words=("none", "optional", "require"),
        ),
    )
    client_enable: bool = setting(False, Switch("Use TLS towards registries and other brokers.", aliases=("useTLS",)))
    client_cert_path: str | None = setting(None, Path("The certificate we show, PEM.", otherwise="none"))
    client_key_path: str | None = setting(None, Path("Its private key, PEM.", otherwise="none"))
    client_key_password: str | None = setting(None, Text("That key's password.", secret=True, otherwise="none"))
    client_trust_cert_path: str | None = setting(
        None, Path("The authorities that servers are checked against, PEM.", otherwise="the system's")
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
    """What clients may use up (reliability L1 to L18)."""

    frame_max_length: int = setting(
        16 * _MIB,
        Size(
            "The longest frame.",
            aliases=("com.rocketmq.remoting.frameMaxLength",),
            low=64 * _KIB,
            high=_GIB,
        ),
    )
    header_max_length: int = setting(256 * _KIB, Size("The longest frame header.", low=4 * _KIB, high=15 * _MIB))
    max_connections: int = setting(10_000, Integer("Connections of one port.", low=1))
    max_connections_per_address: int = setting(
        1024, Integer("Connections from one address; loopback addresses are not counted.", low=1)
    )
    first_frame_timeout: float = setting(
        10.0, Duration("How long a new connection may take to send its first frame.", per="s", low=1, high=600)
    )
    frame_timeout: float = setting(
        30.0,
        Duration(
            "How long a frame may take once begun, unless it grows by frameMinimumRate.", per="s", low=1, high=600
        ),
    )
    frame_minimum_rate: int = setting(
        1 * _KIB, Size("Bytes a second by which a frame that was begun has to grow over frameTimeout.", low=1)
    )
    server_channel_max_idle_time_seconds: float = setting(
        120.0, Duration("Connections to a broker that are silent for so long are closed.", per="s", low=1, high=86_400)
    )
    max_requests_in_flight: int = setting(
        1024, Integer("Unanswered requests of a connection, held pulls not counted.", low=1)
    )
    unsent_pause_size: int = setting(
        1 * _MIB, Size("Unsent bytes at which a connection is no longer read.", low=64 * _KIB)
    )
    unsent_resume_size: int = setting(256 * _KIB, Size("Unsent bytes at which it is read again.", low=1 * _KIB))
    unsent_timeout: float = setting(
        60.0,
        Duration(
            "How long a connection may have more than unsentPauseSize unsent before it is closed.",
            per="s",
            low=1,
            high=3600,
        ),
    )
    unsent_max_size: int = setting(32 * _MIB, Size("Unsent bytes at which it is closed.", low=1 * _MIB))
    memory_budget: int | None = setting(
        None,
        Size(
            "Memory for all that peers sent and that is not finished, and for answers that they have not taken."
            " Connections that hold much are not read while it runs short. At least four times frameMaxLength.",
            low=16 * _MIB,
            otherwise="512 MiB, or a quarter of memory, whichever is less",
        ),
    )
    undone_sends_max_size: int | None = setting(
        None,
        Size(
            "Bytes of sends that wait for disk or slave, in all.",
            low=1 * _MIB,
            otherwise="512 MiB, or a quarter of memory",
        ),
    )
    max_held_pulls: int = setting(
        65_536,
        Integer(
            "Pulls held at once, in all. An address may have as many as are still free: half, if it is the only one.",
            low=1,
        ),
    )
    max_held_pulls_per_connection: int = setting(16_384, Integer("Pulls held at once of a connection.", low=1))
    max_topics: int = setting(
        20_000, Integer("Topics created by sends, at most, and as many again by administrators.", low=1)
    )
    max_topics_per_second: int = setting(
        10,
        Integer(
            "Topics created by one address in a second; an administrator may create 1000 at once. Loopback addresses"
            " are not counted.",
            low=1,
        ),
    )
    max_queues_per_topic: int = setting(1024, Integer("Queues of a topic.", low=1, high=QUEUE_LIMIT))
    max_queue_locks: int = setting(
        200_000, Integer("Locks of queues by orderly consumers, in all; addresses share them as maxHeldPulls.", low=1)
    )
    max_groups: int = setting(
        20_000,
        Integer(
            "Consumer groups, at most. By using them an address brings about as many as are still free, half of all.",
            low=1,
        ),
    )
    max_groups_per_second: int = setting(
        10,
        Integer(
            "Consumer groups that one address brings about in a second, after the first 100; an administrator may"
            " create 1000 at once. Loopback addresses are not counted.",
            low=1,
        ),
    )
    max_offsets: int = setting(
        1_000_000, Integer("Consumer offsets that are kept, one for each group and queue, at most.", low=1)
    )
    subscriptions_max_size: int = setting(
        128 * _MIB,
        Size("Memory for the subscriptions of connected consumers; addresses share it as maxHeldPulls.", low=1 * _MIB),
    )
    max_groups_per_connection: int = setting(
        1024, Integer("Producer groups, and consumer groups, that one connection is a member of.", low=1)
    )


_LISTEN = r"on|off|(?:(?:[0-9.]{7,15}|localhost|\[[0-9a-fA-F:.]{2,45}\]):)?[0-9]{1,5}"
_HOSTS = r"(?:[A-Za-z0-9._-]{1,253}(?::[0-9]{1,5})?(?:;|$))*"
_IPS = r"(?:[0-9a-fA-F:.]{2,45}(?:;|$))*"


class OpsConfig(Table, frozen=True, kw_only=True, rename=file_name):
    """The REST API and the console."""

    ops_listen: str | None = setting(
        None,
        Text(
            "Where the REST API and the console are served: on for 127.0.0.1 and the broker's port + 2 (10913), off for"
            " nowhere, or an address. Any but a loopback address needs a token, and TLS or opsAllowInsecure.",
            pattern=_LISTEN,
            says="on, off, PORT or ADDRESS:PORT",
            otherwise="on in registry and broker together, else off",
        ),
    )
    ops_allow_insecure: bool = setting(
        False, Switch("Serve on other than loopback addresses without TLS, as behind a proxy that speaks it.")
    )
    ops_tokens: str = setting(
        "",
        Text(
            "Tokens of the API besides those made over it, several separated by ;.",
            pattern=r"[A-Za-z0-9._:+;-]{0,8192}",
            says="NAME:SCOPES:HASH, SCOPES some of read+publish+admin, HASH the token's SHA-256 in hexadecimal digits",
            secret=True,
            otherwise="none",
        ),
    )
    ops_hosts: str = setting(
        "",
        Text(
            "Host names by which browsers may ask for the console, besides localhost and addresses; several separated"
            " by ;.",
            pattern=_HOSTS,
            says="NAME or NAME:PORT, several separated by ;",
            otherwise="none",
        ),
    )
    ops_broker_networks: tuple[str, ...] = setting(
        (),
        NetworkList(
            "Where brokers may be that the API connects to, as registries name them; registries themselves are always"
            " asked. Brokers that register with host names are not reached then.",
            otherwise="everywhere",
        ),
    )
    ops_trusted_proxies: str = setting(
        "",
        Text(
            "Addresses of proxies whose X-Forwarded-For is believed, several separated by ;.",
            pattern=_IPS,
            says="IP addresses, several separated by ;",
            otherwise="none",
        ),
    )
    ops_certificate_scope: str = setting(
        "none",
        Choice(
            "What a client may do that shows a certificate of tls.server.trustCertPath in place of a token.",
            words=("none", "read", "publish", "admin"),
        ),
    )
    ops_requests_per_second: int = setting(200, Integer("Requests of one address, on average.", low=1, high=100_000))
    ops_max_connections: int = setting(
        512, Integer("Connections to the API, in all; where there are more, idle ones are closed.", low=8)
    )
    ops_max_connections_per_address: int = setting(
        128,
        Integer(
            "Connections to the API of one address that is none of opsTrustedProxies; idle ones are closed.", low=4
        ),
    )
    ops_max_requests: int = setting(64, Integer("Requests of the API that are served at once.", low=4))
    ops_max_streams: int = setting(
        64, Integer("Streams and exports of the API at once; who asks gets a quarter of them at most.", low=4)
    )
    ops_path: str = setting(
        "",
        Path(
            "The directory of tokens, audit log and history.",
            otherwise="ops below storePathRootDir, for a registry alone below the directory of kvConfigPath",
        ),
    )
    ops_debug: bool = setting(
        False, Switch("Serve stacks and figures of the process's memory to admins on this machine.")
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
    "tls": TlsConfig,
    "limits": LimitsConfig,
    "ops": OpsConfig,
}
