"""Tell receivers of alerts: the queues of notices, their timers and senders, and the file that they are kept in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.config.receivers import AlertReceiver
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody
from smartgo.ops.alerts.messages import NoticeOrigin, test_batches
from smartgo.ops.alerts.notices import NoticeQueue, SavedDelivery
from smartgo.ops.alerts.senders import HttpSender, NotDelivered, NoticeSender
from smartgo.ops.alerts.table import AlertTable
from smartgo.tablefile import TableFile

_NEVER: Final = SavedDelivery([], [])


class SavedNotices(msgspec.Struct, rename="camel"):
    """The deliveries that survive a restart, by receiver."""

    receivers: dict[str, SavedDelivery]


class TestResult(msgspec.Struct, frozen=True, rename="camel"):
    """
    The result of a test of a receiver.

    @ivar delivered: whether the receiver took the message.
    @ivar answer: what it answered, or why it did not take it.
    @ivar took_ms: how long that took.
    """

    delivered: bool
    answer: str
    took_ms: int


def sender_of(env: IEnvironment, receiver: AlertReceiver, origin: NoticeOrigin) -> NoticeSender:
    """Return what brings messages to a receiver. @raise SettingError: one of its files cannot be read."""
    if receiver.kind == "smtp":
        from smartgo.ops.alerts.mail import MailSender  # asks the name service for this machine's name

        return MailSender(env, receiver, origin)
    return HttpSender(env, receiver, origin)


class AlertNotifier:
    """
    Tells receivers which alerts fire and which are resolved.

    @ivar origin: what all notices say.
    @ivar queues: the notices by the name of their receiver, in the order of the settings.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        receivers: Sequence[AlertReceiver],
        origin: NoticeOrigin,
        file: TableFile,
        table: AlertTable,
        make_sender: Callable[[IEnvironment, AlertReceiver, NoticeOrigin], NoticeSender] = sender_of,
    ) -> None:
        """
        @param origin: what all notices say.
        @param file: where undelivered notices are kept.
        @param table: the alerts.
        @raise SettingError: a file of a receiver cannot be read.
        """
        self._env = env
        self._file = file
        self._table = table
        self.origin = origin
        self._senders = {one.name: make_sender(env, one, origin) for one in receivers}
        self._timers: dict[str, IDelayedCall] = {}
        self._sends: set[Deferred[None]] = set()
        self._stopped = False
        self.queues = {one.name: NoticeQueue(one) for one in receivers}

    # -- its life ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the kept notices; blocking. @raise BrokenTable: they cannot be read."""
        found: SavedNotices | None = self._file.load(read_notices)
        now_ms, seconds = self._env.clock.wall_ms(), self._env.clock.seconds()
        for name, queue in self.queues.items():
            kept = _NEVER if found is None else found.receivers.get(name, _NEVER)
            queue.restore(kept, now_ms, seconds)

    async def stop(self) -> None:
        """Stop sending; fires once the notices are written. A message that is being sent may have been taken."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for sending in list(self._sends):
            sending.cancel()
        await self._file.settled()

    # -- sending -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Compare the alerts with what each receiver was told, and send what is due."""
        if self._stopped or not self.queues:
            return
        now_ms, seconds = self._env.clock.wall_ms(), self._env.clock.seconds()
        listed = [one for one in self._table.alerts() if one.state != "pending"]
        alerts = {(one.rule, one.subject): (one, self._table.severity(one)) for one in listed}
        silenced = {
            key for key, (one, _) in alerts.items() if one.cause or self._table.silence_of(one, now_ms) is not None
        }
        changed = [queue.observe(alerts, silenced, now_ms, seconds) for queue in self.queues.values()]
        if any(changed):
            self._save()
        for name in self.queues:
            self._schedule(name)

    def _schedule(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        due = self.queues[name].next_at
        if due is None or self._stopped:
            return
        wait = max(0.0, due - self._env.clock.seconds())
        self._timers[name] = self._env.clock.callLater(wait, self._send_due, name)

    def _send_due(self, name: str) -> None:
        del self._timers[name]
        sending = Deferred.fromCoroutine(self._send(name))
        self._sends.add(sending)
        sending.addErrback(self._bug, name).addBoth(lambda _: self._sends.discard(sending))

    async def _send(self, name: str) -> None:
        clock, queue = self._env.clock, self.queues[name]
        batch = queue.take(clock.seconds())
        if batch is None:
            self._schedule(name)
            return
        try:
            await self._senders[name].send(batch)
        except NotDelivered as error:
            dropped = queue.counts.dropped
            queue.failed(str(error), error.refused, clock.wall_ms(), clock.seconds())
            self._log.warn("alert receiver {name} was not told: {error}", name=name, error=str(error))
            dropped = queue.counts.dropped - dropped
            if dropped:
                self._log.error("{count} notices for alert receiver {name} are given up", count=dropped, name=name)
        else:
            queue.delivered(clock.wall_ms(), clock.seconds())
        self._save()
        self._schedule(name)

    def _bug(self, failure: Failure, name: str) -> None:
        if self._stopped:
            return
        self._log.failure("telling alert receiver {name} failed", failure, name=name)
        clock = self._env.clock
        self.queues[name].failed(f"error: {failure.getErrorMessage()}", True, clock.wall_ms(), clock.seconds())
        self._schedule(name)

    async def test(self, name: str) -> TestResult:
        """Send a test message at once; return what the receiver answered. @raise LookupError: there is no such one."""
        queue, sender, clock = self.queues[name], self._senders[name], self._env.clock
        began = clock.seconds()
        try:
            for batch in test_batches(queue.receiver, clock.wall_ms()):
                answer = await sender.send(batch)
        except NotDelivered as error:
            return TestResult(False, str(error), round((clock.seconds() - began) * 1000))
        return TestResult(True, answer, round((clock.seconds() - began) * 1000))

    # -- keeping it --------------------------------------------------------------------------------------------

    def _save(self) -> None:
        saved = SavedNotices({name: queue.saved() for name, queue in self.queues.items()})
        self._file.save(saved).addErrback(self._unsaved)

    def _unsaved(self, failure: Any) -> None:
        failure.trap(OSError)
        self._log.warn("{path} was not written: {error}", path=self._file.path, error=failure.getErrorMessage())


def read_notices(data: bytes) -> SavedNotices:
    """Read what L{AlertNotifier} kept. @raise BadBody: it is something else."""
    try:
        return msgspec.json.decode(data, type=SavedNotices)
    except msgspec.MsgspecError as error:
        raise BadBody(f"this is not a file of notices: {error}") from None
