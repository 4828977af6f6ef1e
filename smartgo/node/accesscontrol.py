"""
The access control of a process: rules from their files, read again when these change, and the hook of its ports.

All servers of a process share one, and the process signs its own requests with one key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.auth.accounts import AccessAccount, AccessRules, Rights
from smartgo.auth.connections import AccessControl, ConnectionAccess
from smartgo.auth.keyfile import load_key_file
from smartgo.auth.ruleediting import RuleEditor
from smartgo.auth.rulefiles import RuleFiles, Stamp
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.remoting.connectionhook import ConnectionHook, RequestCheck
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.origin import asker
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.signature import AccessKey

T = TypeVar("T")

PERIOD: Final = 1.0
"""Seconds between two looks at the files."""

LANE: Final = "access"
"""The thread that reads the files."""

_KEY_SIZE: Final = 8  # bytes of the random name of a process's own key
_SECRET_SIZE: Final = 32


def is_enabled(configuration: Configuration) -> bool:
    """Tell whether a server of the process requires signed requests."""
    return configuration.broker.acl_enable or configuration.registry.acl_enable


def rule_files(env: IEnvironment, configuration: Configuration) -> RuleFiles:
    """Return the files of a process's access control."""
    return RuleFiles(env.files, configuration.access.acl_path, configuration.broker.broker_cluster_name)


def own_key(env: IEnvironment, configuration: Configuration) -> AccessKey | None:
    """
    Return the key that a process signs its own requests with; C{None} where none is set. Blocking.

    @raise SettingError: the file with the key cannot be used.
    """
    config = configuration.access
    if config.access_key_file is not None:
        return load_key_file(env.files, config.access_key_file)
    if config.access_key is None or config.secret_key is None:
        return None
    return AccessKey(config.access_key, config.secret_key)


def access_service(env: IEnvironment, configuration: Configuration) -> AccessService | None:
    """
    Return the access control of a process; C{None} where it is off. Blocking.

    @raise SettingError: a file cannot be used.
    """
    if not is_enabled(configuration):
        return None
    checks_groups = configuration.access.acl_check_producer_groups
    return AccessService(env, rule_files(env, configuration), own_key(env, configuration), checks_groups)


class AccessService(Service):
    """
    The rules in force, which follow their files while this runs.

    A file that cannot be used leaves the rules as they were, and is logged once.

    @ivar control: the rules in force.
    @ivar hook: asks them about each request of a port.
    @ivar key: signs the requests of this process. One that is not set by anybody is made here; it is an
        administrator's in this process alone, and nobody else knows it.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        files: RuleFiles,
        key: AccessKey | None = None,
        checks_producer_groups: bool = False,
    ) -> None:
        """
        Read the files; blocking.

        @param key: signs the requests of this process.
        @param checks_producer_groups: see L{AccessControl}.
        @raise SettingError: a file cannot be used.
        """
        self._env = env
        self.files = files
        self._made: tuple[AccessAccount, ...] = ()
        if key is None:
            key = AccessKey(f"smartgo-{env.random.token(_KEY_SIZE).hex()}", env.random.token(_SECRET_SIZE).hex())
            self._made = (AccessAccount(key, Rights(admin=True)),)
        self.key = key
        self._stamp: Stamp | None = files.stamp()  # of what is in force
        self._seen = self._stamp  # at the last look of the thread that reads the files
        self._noted: tuple[str, ...] = ()
        self.control = AccessControl(self._with_own(files.read()), checks_producer_groups)
        grants = RunGrants(self.control.grant)
        self.control.when_replaced(grants.forget)
        self.hook = ConnectionHook(self._check, grants)
        self._loop = LoopingCall(self._follow)
        self._loop.clock = env.clock

    def _with_own(self, rules: AccessRules) -> AccessRules:
        return AccessRules([*self._made, *rules.accounts.values()], rules.unsigned_from, rules.notes)

    def _check(self, peer: IPeer) -> RequestCheck:
        return ConnectionAccess(self.control, asker(peer).ip, peer.certificate_names).check

    # -- following the files -------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to follow the files."""
        super().startService()
        self._tell_notes()
        self._loop.start(PERIOD, now=False)

    def stopService(self) -> None:
        """Follow the files no more."""
        super().stopService()
        if self._loop.running:
            self._loop.stop()

    def _follow(self) -> Deferred[None]:
        """Read the files again if they changed; fires when that is done, and never fails."""
        reading: Deferred[tuple[Stamp, AccessRules] | None] = self._env.threads.run(LANE, self._read_changed)
        return reading.addCallbacks(self._changed, self._failed)

    def _read_changed(self) -> tuple[Stamp, AccessRules] | None:
        """
        Return the rules and their stamp if a file changed; blocking.

        A file that changed since the last look is left alone until the next: it may be half written.

        @raise SettingError: one cannot be used.
        """
        stamp = self.files.stamp()
        seen, self._seen = self._seen, stamp
        if stamp == self._stamp or stamp != seen:
            return None
        return stamp, self.files.read()

    def _changed(self, read: tuple[Stamp, AccessRules] | None) -> None:
        if read is not None:
            self.apply(*read)
        elif self._seen == self._stamp:
            self.control.problem = ""  # the files are again as they were when they were read

    def _failed(self, failure: Failure) -> None:
        """Keep the rules, and tell once why the files are of no use; they are read again at the next look."""
        problem = str(failure.value)
        if failure.check(SettingError) is None:
            self._log.failure("the access control files cannot be read", failure)
        elif problem != self.control.problem:
            self._log.error("access control stays as it was: {problem}", problem=problem)
        self.control.problem = problem

    def apply(self, stamp: Stamp, rules: AccessRules) -> None:
        """Put rules that were read in force, for open connections as well."""
        self._stamp = stamp
        self.control.problem = ""
        self.control.replace(self._with_own(rules))
        self._log.info("access control: {count} accounts are in force", count=len(rules.accounts))
        self._tell_notes()

    def reload(self) -> None:
        """
        Read the files now; blocking. Called at SIGHUP.

        @raise SettingError: one cannot be used; the rules stay as they were.
        """
        stamp = self.files.stamp()
        try:
            rules = self.files.read()
        except SettingError as error:
            self.control.problem = str(error)
            raise
        self.apply(stamp, rules)

    def change(self, edit: Callable[[RuleEditor], T]) -> Deferred[T]:
        """
        Call C{edit} in the thread of the files, put what they say then in force, and fire with its result.

        @raise SettingError: through the Deferred: C{edit} refused, or a file cannot be used. The rules stay as
            they were.
        """

        def work() -> tuple[T, Stamp, AccessRules]:
            editor = RuleEditor(self._env.files, self.files, self._env.clock.wall_ms)
            result = edit(editor)
            return result, *editor.read()

        def apply(done: tuple[T, Stamp, AccessRules]) -> T:
            result, stamp, rules = done
            if stamp != self._stamp:
                self.apply(stamp, rules)
            return result

        changing: Deferred[tuple[T, Stamp, AccessRules]] = self._env.threads.run(LANE, work)
        return changing.addCallback(apply)

    def _tell_notes(self) -> None:
        """Log what has no effect in the files, once as long as it stays the same."""
        notes = self.control.rules.notes
        for note in notes:
            if note not in self._noted:
                self._log.warn("access control: {note}", note=note)
        self._noted = notes
