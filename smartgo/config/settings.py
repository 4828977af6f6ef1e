"""
Every setting of smartgo, by table: its name, type, default, unit and range.

The names in files are RocketMQ's (C{flushDiskType}) where RocketMQ has the setting, and so are the defaults, unless
C{reliability.md} asks for more; the attributes here are the same names in lower case with underscores. In the code
durations are seconds and sizes bytes, whatever the unit in the file.

Sources: C{BrokerConfig}, C{MessageStoreConfig}, C{NettyServerConfig}, C{NamesrvConfig} and C{TlsSystemConfig} of
RocketMQ 4.9.8; the limits are L1 to L18 of C{reliability.md}.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from smartgo.config.kinds import (
    Address,
    Addresses,
    Choice,
    Duration,
    Host,
    Hours,
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

_KIB = 1 << 10
_MIB = 1 << 20
_GIB = 1 << 30
_DAY_MS = 86_400_000

_SPELLED = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "check_crc_on_read": "checkCRCOnRead",
    "check_crc_on_recover": "checkCRCOnRecover",
    "server_mode": "tls.server.mode",
    "server_cert_path": "tls.server.certPath",
    "server_key_path": "tls.server.keyPath",
    "server_key_password": "tls.server.keyPassword",
    "server_trust_cert_path": "tls.server.trustCertPath",
    "server_need_client_auth": "tls.server.need.client.auth",
    "client_enable": "tls.enable",
    "client_cert_path": "tls.client.certPath",
    "client_key_path": "tls.client.keyPath",
    "client_key_password": "tls.client.keyPassword",
    "client_trust_cert_path": "tls.client.trustCertPath",
}


def _file_name(attribute: str) -> str:
    return _SPELLED.get(attribute) or re.sub("_([a-z])", lambda match: match[1].upper(), attribute)


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """Who the broker is, where it listens and registers, and what it allows."""

    broker_cluster_name: Annotated[str, Name("The cluster this broker belongs to.")] = "DefaultCluster"
    broker_name: Annotated[
        str, Name("The name of this broker; a master and its slaves share it.", otherwise="the host's name")
    ] = ""
    broker_id: Annotated[int, Integer("0 for a master, above 0 for a slave.")] = 0
    broker_role: Annotated[
        str,
        Choice(
            "A master that answers at once, a master that waits for a slave, or a slave.",
            words=("ASYNC_MASTER", "SYNC_MASTER", "SLAVE"),
        ),
    ] = "ASYNC_MASTER"
    broker_permission: Annotated[
        int, Integer("What the broker as a whole allows: 4 read, 2 write, 6 both.", high=7)
    ] = 6

    listen_port: Annotated[int, Port("TCP port for clients.")] = 10911
    fast_port: Annotated[
        bool | int,
        PortOrSwitch(
            "The second port ('VIP channel'), where everything but pulling is served: true for listenPort - 2,"
            " false for none, or a port.",
            low=1,
        ),
    ] = True
    bind_address: Annotated[
        str, Host("The address to listen on. Any but a loopback address needs access control, or allowInsecure.")
    ] = "127.0.0.1"
    allow_insecure: Annotated[
        bool, Switch("Serve on other than loopback addresses although nobody has to say who they are.")
    ] = False
    broker_ip1: Annotated[
        str,
        Host(
            "The address that clients are told to connect to; it is also part of every message id.",
            otherwise="bindAddress, or where that is a wildcard the address that faces the registry",
            names=True,
        ),
    ] = ""
    broker_ip2: Annotated[
        str, Host("The address that slaves are told to replicate from.", otherwise="brokerIP1", names=True)
    ] = ""

    namesrv_addr: Annotated[
        tuple[str, ...],
        Addresses("The registries to register with.", otherwise="NAMESRV_ADDR of the environment, or none"),
    ] = ()
    register_name_server_period: Annotated[
        float, Duration("Time between two registrations.", low=10_000, high=60_000, clamp=True)
    ] = 30.0
    register_broker_timeout_mills: Annotated[
        float, Duration("How long to wait for a registry's answer.", low=1, high=600_000)
    ] = 6.0
    force_register: Annotated[
        bool, Switch("Register even when nothing changed; else ask first whether it is needed.")
    ] = True
    compressed_register: Annotated[bool, Switch("Compress the topic table of a registration.")] = False

    auto_create_topic_enable: Annotated[bool, Switch("Create unknown topics on the first send to them.")] = True
    default_topic_queue_nums: Annotated[int, Integer("Queues of a topic created so, at most.", low=1, high=1024)] = 8
    auto_create_subscription_group: Annotated[bool, Switch("Create unknown consumer groups when they appear.")] = True
    cluster_topic_enable: Annotated[bool, Switch("Let the topic named like the cluster be a template.")] = True
    broker_topic_enable: Annotated[bool, Switch("Let the topic named like the broker be a template.")] = True
    trace_topic_enable: Annotated[bool, Switch("Create the topic for message traces at start.")] = False
    msg_trace_topic_name: Annotated[str, Name("The topic for message traces.")] = "RMQ_SYS_TRACE_TOPIC"
    trace_on: Annotated[bool, Switch("Tell producers that traces are wanted.")] = True
    region_id: Annotated[str, Name("The region that traces name.")] = "DefaultRegion"

    long_polling_enable: Annotated[
        bool, Switch("Hold a pull that finds nothing as long as its client allows, else for shortPollingTimeMills.")
    ] = True
    short_polling_time_mills: Annotated[
        float, Duration("How long a pull that finds nothing is held without long polling.", low=1, high=600_000)
    ] = 1.0
    slave_read_enable: Annotated[bool, Switch("Let consumers be sent to a slave for old messages.")] = False
    enable_property_filter: Annotated[bool, Switch("Allow SQL92 filters.")] = False
    filter_support_retry: Annotated[bool, Switch("Apply SQL92 filters to retried messages too.")] = False
    notify_consumer_ids_changed_enable: Annotated[
        bool, Switch("Tell consumers at once when a member joins or leaves their group.")
    ] = True
    disable_consume_if_consumer_read_slowly: Annotated[
        bool, Switch("Stop a group that is consumerFallbehindThreshold behind.")
    ] = False
    consumer_fallbehind_threshold: Annotated[int, Size("See disableConsumeIfConsumerReadSlowly.")] = 16 * _GIB
    flush_consumer_offset_interval: Annotated[
        float, Duration("Time between two savings of the consumer offsets.", low=100, high=600_000)
    ] = 5.0
    store_reply_message_enable: Annotated[bool, Switch("Store the replies of request-reply calls.")] = True

    reject_transaction_message: Annotated[bool, Switch("Refuse transactional messages.")] = False
    transaction_check_interval: Annotated[
        float, Duration("Time between two rounds of check-backs.", low=100, high=_DAY_MS)
    ] = 60.0
    transaction_time_out: Annotated[
        float, Duration("How old an undecided message is before its first check-back.", high=_DAY_MS)
    ] = 6.0
    transaction_check_max: Annotated[
        int, Integer("Check-backs before an undecided message is given up.", high=1000)
    ] = 15

    broker_fast_failure_enable: Annotated[
        bool, Switch("Refuse requests that have waited too long instead of doing them late.")
    ] = True
    wait_time_mills_in_send_queue: Annotated[float, Duration("How long a send may wait.", low=1, high=600_000)] = 0.2
    wait_time_mills_in_pull_queue: Annotated[float, Duration("How long a pull may wait.", low=1, high=600_000)] = 5.0
    wait_time_mills_in_heartbeat_queue: Annotated[
        float, Duration("How long a heartbeat may wait.", low=1, high=600_000)
    ] = 31.0
    wait_time_mills_in_transaction_queue: Annotated[
        float, Duration("How long a commit or rollback may wait.", low=1, high=600_000)
    ] = 3.0
    start_accept_send_request_time_stamp: Annotated[
        int, Integer("Refuse sends before this time, in milliseconds since 1970.")
    ] = 0

    acl_enable: Annotated[bool, Switch("Ask every client for an access key and a signature.")] = False
    rocketmq_home: Annotated[
        str,
        Path(
            "Where conf/ with the access keys lies.",
            otherwise="ROCKETMQ_HOME or SMARTGO_HOME of the environment, or the home directory",
        ),
    ] = ""

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


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """Where and how messages are kept."""

    store_path_root_dir: Annotated[
        str, Path("The directory of the store.", otherwise="store below SMARTGO_HOME or the home directory")
    ] = ""
    store_path_commit_log: Annotated[
        str,
        Path("The directory of the CommitLog; it must lie below storePathRootDir.", otherwise="commitlog below it"),
    ] = ""
    flush_disk_type: Annotated[
        str,
        Choice(
            "Answer a send when its bytes are in memory, or when they are on disk.", words=("ASYNC_FLUSH", "SYNC_FLUSH")
        ),
    ] = "ASYNC_FLUSH"
    flush_interval_commit_log: Annotated[
        float, Duration("Time between two flushes under ASYNC_FLUSH.", low=10, high=60_000)
    ] = 0.5
    sync_flush_timeout: Annotated[
        float,
        Duration("How long a send waits for its flush before it is answered FLUSH_DISK_TIMEOUT.", low=1, high=600_000),
    ] = 5.0
    dispatch_after_flush: Annotated[
        bool | None,
        Switch("Show messages to consumers only when they are on disk.", otherwise="true under SYNC_FLUSH, else false"),
    ] = None
    on_store_error: Annotated[
        str,
        Choice(
            "After a failed flush: serve reads only, or end the process with status 74.", words=("readonly", "exit")
        ),
    ] = "readonly"
    mapped_file_size_commit_log: Annotated[
        int | None,
        Size(
            "Length of a CommitLog file.",
            aliases=("mapedFileSizeCommitLog",),
            otherwise="that of the files that are there, or 1 GiB",
            low=64 * _KIB,
            high=(1 << 31) - 1,
        ),
    ] = None
    mapped_file_size_consume_queue: Annotated[
        int | None,
        Size(
            "Length of a queue file; rounded up to a multiple of 20.",
            aliases=("mapedFileSizeConsumeQueue",),
            otherwise="that of the files that are there, or 6000000 bytes",
            low=20,
            high=_GIB,
        ),
    ] = None
    max_message_size: Annotated[
        int, Size("The largest message body, and the largest batch.", low=1 * _KIB, high=512 * _MIB)
    ] = 4 * _MIB
    message_delay_level: Annotated[str, Levels("The delays that messages can ask for, level 1 first.")] = (
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )
    flush_delay_offset_interval: Annotated[
        float,
        Duration("Time between two savings of the delivery positions of delayed messages.", low=100, high=600_000),
    ] = 10.0
    delete_when: Annotated[tuple[int, ...], Hours("The hours of the day at which old files are removed.")] = (4,)
    file_reserved_time: Annotated[
        float, Duration("How long CommitLog files are kept after their last message.", per="h", low=1, high=87_600)
    ] = 259_200.0
    disk_max_used_space_ratio: Annotated[
        int,
        Integer("Remove old files early when the disk is fuller than this, in percent.", low=10, high=95, clamp=True),
    ] = 75
    clean_file_forcibly_enable: Annotated[
        bool, Switch("Remove the oldest files whatever their age when the disk is 85 percent full.")
    ] = True
    message_index_enable: Annotated[bool, Switch("Index messages by key.")] = True
    max_hash_slot_num: Annotated[int, Integer("Hash slots of an index file.", low=16, high=100_000_000)] = 5_000_000
    max_index_num: Annotated[int, Integer("Entries of an index file.", low=16, high=90_000_000)] = 20_000_000
    default_query_max_num: Annotated[int, Integer("Results of a search by unique key, at most.", low=1, high=1024)] = 32
    max_msgs_num_batch: Annotated[int, Integer("Results of a search by key, at most.", low=1, high=1024)] = 64
    access_message_in_memory_max_ratio: Annotated[
        int,
        Integer(
            "Messages within this share of memory from the log's end count as in memory, in percent.", low=1, high=90
        ),
    ] = 40
    max_transfer_bytes_on_message_in_memory: Annotated[
        int, Size("Bytes of one pull from memory, at most.", low=1, high=8 * _MIB)
    ] = 256 * _KIB
    max_transfer_count_on_message_in_memory: Annotated[
        int, Integer("Messages of one pull from memory, at most.", low=1, high=1024)
    ] = 32
    max_transfer_bytes_on_message_in_disk: Annotated[
        int, Size("Bytes of one pull from disk, at most.", low=1, high=8 * _MIB)
    ] = 64 * _KIB
    max_transfer_count_on_message_in_disk: Annotated[
        int, Integer("Messages of one pull from disk, at most.", low=1, high=1024)
    ] = 8
    check_crc_on_recover: Annotated[bool, Switch("Check message bodies during recovery.")] = True
    check_crc_on_read: Annotated[bool, Switch("Check message bodies on every pull.")] = False
    offset_check_in_slave: Annotated[bool, Switch("Let a slave correct the offsets of pulls.")] = False

    @property
    def dispatches_after_flush(self) -> bool:
        """Whether consumers see messages only when these are on disk (reliability D6)."""
        if self.dispatch_after_flush is None:
            return self.flush_disk_type == "SYNC_FLUSH"
        return self.dispatch_after_flush


class HaConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """Replication from a master to its slaves."""

    ha_listen_port: Annotated[int | None, Port("TCP port for slaves.", otherwise="listenPort + 1")] = None
    ha_master_address: Annotated[
        str | None, Address("Where a slave replicates from.", otherwise="what the registry says")
    ] = None
    ha_send_heartbeat_interval: Annotated[
        float, Duration("Time between two heartbeats on an idle replication.", low=100, high=600_000)
    ] = 5.0
    ha_housekeeping_interval: Annotated[
        float, Duration("A replication that is silent for so long is ended.", low=100, high=600_000)
    ] = 20.0
    ha_transfer_batch_size: Annotated[int, Size("Bytes sent to a slave at once.", low=1 * _KIB, high=4 * _MIB)] = (
        32 * _KIB
    )
    ha_slave_fallbehind_max: Annotated[
        int, Size("A slave that is further behind does not count for SYNC_MASTER.", low=1 * _MIB)
    ] = 256 * _MIB
    slave_timeout: Annotated[
        float, Duration("How long a send waits for a slave under SYNC_MASTER.", low=1, high=600_000)
    ] = 3.0


class RegistryConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """The registry (name server)."""

    listen_port: Annotated[int, Port("TCP port for brokers and clients.")] = 9876
    bind_address: Annotated[
        str, Host("The address to listen on. Any but a loopback address needs access control, or allowInsecure.")
    ] = "127.0.0.1"
    allow_insecure: Annotated[
        bool, Switch("Serve on other than loopback addresses although nobody has to say who they are.")
    ] = False
    kv_config_path: Annotated[
        str,
        Path(
            "The file of the namespaced settings (order topics among them).",
            otherwise="namesrv/kvConfig.json below SMARTGO_HOME or the home directory",
        ),
    ] = ""
    order_message_enable: Annotated[bool, Switch("Send the queue order of order topics along with routes.")] = False
    server_channel_max_idle_time_seconds: Annotated[
        float, Duration("Connections that are silent for so long are closed.", per="s", low=1, high=86_400)
    ] = 120.0
    scan_not_active_broker_interval: Annotated[
        float, Duration("Time between two searches for brokers that have fallen silent.", low=100, high=120_000)
    ] = 10.0
    max_route_topics: Annotated[int, Integer("Topics that brokers may register, in all.", low=1)] = 200_000
    max_route_brokers: Annotated[int, Integer("Broker addresses that may be registered.", low=1)] = 10_000
    max_kv_size: Annotated[
        int, Size("Namespaced settings in all: names and values together.", low=1 * _KIB, high=_GIB)
    ] = 16 * _MIB


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """TLS on the ports of broker and registry, and towards them."""

    server_mode: Annotated[
        str | None,
        Choice(
            "Take TLS nowhere, where a client starts it, or insist on it.",
            words=("disabled", "permissive", "enforcing"),
            otherwise="permissive where a certificate is configured, else disabled",
        ),
    ] = None
    server_cert_path: Annotated[str | None, Path("The certificate chain, PEM.", otherwise="none")] = None
    server_key_path: Annotated[str | None, Path("The private key, PEM; nobody else may read it.", otherwise="none")] = (
        None
    )
    server_key_password: Annotated[str | None, Text("The private key's password.", secret=True, otherwise="none")] = (
        None
    )
    server_trust_cert_path: Annotated[
        str | None, Path("The authorities that client certificates are checked against, PEM.", otherwise="none")
    ] = None
    server_need_client_auth: Annotated[
        str,
        Choice("Whether clients show a certificate.", words=("none", "optional", "require")),
    ] = "none"
    client_enable: Annotated[bool, Switch("Use TLS towards registries and other brokers.", aliases=("useTLS",))] = False
    client_cert_path: Annotated[str | None, Path("The certificate we show, PEM.", otherwise="none")] = None
    client_key_path: Annotated[str | None, Path("Its private key, PEM.", otherwise="none")] = None
    client_key_password: Annotated[str | None, Text("That key's password.", secret=True, otherwise="none")] = None
    client_trust_cert_path: Annotated[
        str | None, Path("The authorities that servers are checked against, PEM.", otherwise="the system's")
    ] = None

    @property
    def mode(self) -> str:
        """The mode in force: C{disabled}, C{permissive} or C{enforcing}."""
        return self.server_mode or ("permissive" if self.server_cert_path else "disabled")


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True, rename=_file_name):
    """What clients may use up (reliability L1 to L18)."""

    frame_max_length: Annotated[
        int,
        Size(
            "The longest frame.",
            aliases=("com.rocketmq.remoting.frameMaxLength",),
            low=64 * _KIB,
            high=_GIB,
        ),
    ] = 16 * _MIB
    header_max_length: Annotated[int, Size("The longest frame header.", low=4 * _KIB, high=15 * _MIB)] = 256 * _KIB
    max_connections: Annotated[int, Integer("Connections of one port.", low=1)] = 10_000
    max_connections_per_address: Annotated[
        int, Integer("Connections from one address; loopback addresses are not counted.", low=1)
    ] = 1024
    first_frame_timeout: Annotated[
        float, Duration("How long a new connection may take to send its first frame.", per="s", low=1, high=600)
    ] = 10.0
    frame_timeout: Annotated[float, Duration("How long a frame may take once begun.", per="s", low=1, high=600)] = 30.0
    server_channel_max_idle_time_seconds: Annotated[
        float, Duration("Connections to a broker that are silent for so long are closed.", per="s", low=1, high=86_400)
    ] = 120.0
    max_requests_in_flight: Annotated[
        int, Integer("Unanswered requests of a connection, held pulls not counted.", low=1)
    ] = 1024
    unsent_pause_size: Annotated[int, Size("Unsent bytes at which a connection is no longer read.", low=64 * _KIB)] = (
        1 * _MIB
    )
    unsent_resume_size: Annotated[int, Size("Unsent bytes at which it is read again.", low=1 * _KIB)] = 256 * _KIB
    unsent_max_size: Annotated[int, Size("Unsent bytes at which it is closed.", low=1 * _MIB)] = 32 * _MIB
    undone_sends_max_size: Annotated[
        int | None,
        Size(
            "Bytes of sends that wait for disk or slave, in all.",
            low=1 * _MIB,
            otherwise="512 MiB, or a quarter of memory",
        ),
    ] = None
    max_held_pulls: Annotated[int, Integer("Pulls held at once, in all.", low=1)] = 65_536
    max_held_pulls_per_connection: Annotated[int, Integer("Pulls held at once of a connection.", low=1)] = 16_384
    max_topics: Annotated[int, Integer("Topics created by sends, at most.", low=1)] = 20_000
    max_topics_per_second: Annotated[int, Integer("Topics created by one address in a second.", low=1)] = 10
    max_queues_per_topic: Annotated[int, Integer("Queues of a topic.", low=1, high=65_536)] = 1024
    max_groups: Annotated[int, Integer("Consumer groups, at most.", low=1)] = 20_000


TABLES: dict[str, type[msgspec.Struct]] = {
    "broker": BrokerConfig,
    "store": StoreConfig,
    "ha": HaConfig,
    "registry": RegistryConfig,
    "tls": TlsConfig,
    "limits": LimitsConfig,
}
