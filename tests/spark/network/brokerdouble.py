"""A broker and a registry without sockets: queues of records in memory, and what may go wrong with their answers."""

from __future__ import annotations

from smartgo.errors import CallTimedOut, NotConnected
from smartgo.schema.bodies import BrokerData, QueueData, TopicList, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import MaxOffsetRequest, OffsetResponse, SearchOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest, PullResponse
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import TAGS, find, tag_code
from smartgo.schema.record import encode as encode_record
from smartgo.spark.network.access import ClusterAccess

HOST = pack_host("10.0.0.1", 10911)
NOW_MS = 1_767_225_600_000
MASTER, SLAVE, REGISTRY = "a:1", "a:2", "r:9876"


class PausedClock:
    """
    A clock on which only pauses take time.

    @ivar now: seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def seconds(self) -> float:
        """Return the time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class MemoryQueue:
    """
    One queue.

    @ivar records: raw, by offset; C{None} for one that is gone.
    @ivar minimum: offset of the first that is there.
    """

    def __init__(self) -> None:
        self.records: list[bytes | None] = []
        self.tags: list[str | None] = []
        self.minimum = 0


class MemoryBroker:
    """
    Brokers and a registry that answer out of order.

    @ivar queues: by topic and queue id, the same at every broker address.
    @ivar refused: codes with which the next pulls are refused.
    @ivar down: addresses that cannot be reached.
    @ivar lost: addresses whose connection breaks after so many answers.
    @ivar asked: every request, as (address, command).
    @ivar bytes_limit: bytes of an answer to a pull, one message at least.
    @ivar hidden: messages at the end of every queue that a slave has not got yet.
    """

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], MemoryQueue] = {}
        self.addresses = {0: MASTER, 1: SLAVE}
        self.refused: list[ResponseCode] = []
        self.down: set[str] = set()
        self.lost: dict[str, int] = {}
        self.asked: list[tuple[str, Command]] = []
        self.bytes_limit = 262144
        self.hidden = 0
        self.scanned = 800
        self.commits: dict[tuple[str, str, int], int] = {}
        self.broker_name = "broker-a"
        self._log_at = 0

    def add(self, topic: str, queue_id: int, count: int, tag: str = "", stored_ms: int | None = None) -> None:
        """Append messages."""
        queue = self.queues.setdefault((topic, queue_id), MemoryQueue())
        for _ in range(count):
            offset = len(queue.records)
            properties = f"TAGS\x01{tag}\x02KEYS\x01k{offset}".encode() if tag else f"KEYS\x01k{offset}".encode()
            message = NewMessage(
                topic, queue_id, f"{topic}-{queue_id}-{offset}".encode(), properties, born_host=HOST, store_host=HOST
            )
            stamp = NOW_MS + offset if stored_ms is None else stored_ms
            raw = encode_record(message, offset, self._log_at, stamp)
            self._log_at += len(raw)
            queue.records.append(raw)
            queue.tags.append(find(properties, TAGS))

    def dial(self, address: str, access: ClusterAccess, timeout: float) -> MemoryConnection:
        """Connect. @raise NotConnected: nobody listens there."""
        if address in self.down or address not in (REGISTRY, *self.addresses.values()):
            raise NotConnected(f"{address} cannot be reached")
        return MemoryConnection(self, address)

    # -- answers -----------------------------------------------------------------------------------------------

    def answer(self, address: str, request: Command) -> Command:
        """Return the answer to a request."""
        self.asked.append((address, request))
        code = RequestCode(request.code)
        if code is RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return request.answer(body=TopicList(topic_list=sorted({topic for topic, _ in self.queues})).encode())
        if code is RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self._route(request)
        if code is RequestCode.PULL_MESSAGE:
            return self._pull(request)
        if code is RequestCode.UPDATE_CONSUMER_OFFSET:
            update = request.read(UpdateOffsetRequest)
            self.commits[update.consumer_group, update.topic, update.queue_id] = update.commit_offset
            return request.answer()
        if code is RequestCode.CHECK_CLIENT_CONFIG:
            wrong = b"wrong" in request.body
            return request.answer(ResponseCode.SUBSCRIPTION_PARSE_FAILED if wrong else ResponseCode.SUCCESS)
        asked = request.read(MaxOffsetRequest)
        queue = self.queues.get((asked.topic, asked.queue_id))
        if queue is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        if code is RequestCode.GET_MAX_OFFSET:
            return self._offset(request, len(queue.records))
        if code is RequestCode.GET_MIN_OFFSET:
            return self._offset(request, queue.minimum)
        assert code is RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        stamp = request.read(SearchOffsetRequest).timestamp
        return self._offset(request, min(max(0, stamp - NOW_MS + 7), len(queue.records)))  # about there

    def _offset(self, request: Command, offset: int) -> Command:
        return request.answer(header=OffsetResponse(offset=offset))

    def _route(self, request: Command) -> Command:
        topic = request.read(RouteInfoRequest).topic
        count = len([one for one in self.queues if one[0] == topic])
        if not count:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, "no route")
        route = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name=self.broker_name,
                    read_queue_nums=count,
                    write_queue_nums=count,
                    perm=6,
                    topic_sys_flag=0,
                )
            ],
            broker_datas=[BrokerData(cluster="c", broker_name=self.broker_name, broker_addrs=self.addresses)],
        )
        return request.answer(body=route.encode())

    def _pull(self, request: Command) -> Command:
        if self.refused:
            return request.answer(self.refused.pop(0), "refused")
        asked = request.read(PullRequest)
        queue = self.queues.get((asked.topic, asked.queue_id))
        if queue is None:
            return request.answer(ResponseCode.TOPIC_NOT_EXIST, "no such topic")
        minimum, maximum = queue.minimum, len(queue.records) - self.hidden
        wants = None
        if asked.subscription not in (None, "*"):
            wants = {tag_code(one.strip()) for one in str(asked.subscription).split("||")}
        found: list[bytes] = []
        offset, size = asked.queue_offset, 0

        def response(code: ResponseCode, onward: int, body: bytes = b"") -> Command:
            header: Header = PullResponse(
                suggest_which_broker_id=0, next_begin_offset=onward, min_offset=minimum, max_offset=maximum
            )
            return request.answer(code, header=header, body=body)

        if offset < minimum or offset > maximum:
            return response(ResponseCode.PULL_OFFSET_MOVED, min(max(offset, minimum), maximum))
        if offset == maximum:
            return response(ResponseCode.PULL_NOT_FOUND, offset)
        limit = maximum if wants is None else min(maximum, asked.queue_offset + self.scanned)
        while offset < limit and len(found) < asked.max_msg_nums:
            raw = queue.records[offset]
            if raw is not None and (wants is None or tag_code(queue.tags[offset]) in wants):
                if found and size + len(raw) > self.bytes_limit:
                    break
                found.append(raw)
                size += len(raw)
            offset += 1
        return response(ResponseCode.SUCCESS if found else ResponseCode.PULL_RETRY_IMMEDIATELY, offset, b"".join(found))


class MemoryConnection:
    """A connection whose answers come last asked, first answered."""

    def __init__(self, broker: MemoryBroker, address: str) -> None:
        self._broker = broker
        self._address = address
        self._waiting: list[Command] = []
        self._opaque = 0
        self.is_closed = False

    def send(self, request: Command) -> int:
        """Send a request."""
        self._opaque += 1
        request.opaque = self._opaque
        self._waiting.append(decode(encode(request)[4:]))
        return self._opaque

    def receive(self, timeout: float) -> Command:
        """Return an answer. @raise NotConnected: the connection is to break now. @raise CallTimedOut: none comes."""
        left = self._broker.lost.get(self._address)
        if left is not None:
            if not left:
                del self._broker.lost[self._address]
                raise NotConnected(f"the connection to {self._address} was lost")
            self._broker.lost[self._address] = left - 1
        if not self._waiting or self._address in self._broker.down:
            raise CallTimedOut(self._address, timeout)
        answer = self._broker.answer(self._address, self._waiting.pop())
        return decode(encode(answer)[4:])

    def close(self) -> None:
        """Close it."""
        self.is_closed = True
