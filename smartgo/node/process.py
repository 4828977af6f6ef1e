"""
The process as a whole: checks before it becomes a daemon, signals, the exit status.

Exit statuses are those of C{sysexits.h}: 75 where another try may succeed (a held store, a busy port), 78 for a wrong
setting, 74 when the store fails for good.
"""

from __future__ import annotations

import atexit
import errno
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.config.settings import LimitsConfig, TlsConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BrokenTable, SettingError, StoreError, StoreHeld
from smartgo.net.endpoints import endpoint
from smartgo.net.limits import Limits
from smartgo.net.memorybudget import DEFAULT, SMALLEST_PART, MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientCertificates, ClientTLS, KeyFiles, Mode, ServerTLS
from smartgo.node import ending
from smartgo.node.notify import Notifier
from smartgo.node.options import end
from smartgo.schema.address import is_loopback_host
from smartgo.tablefile import TableFile

Tables = Sequence[tuple[TableFile, Callable[[], object]]]
"""Files, each with what reads it."""

FAILED: Final = 74
TRY_AGAIN: Final = 75
WRONG_SETTING: Final = 78

_STANDARD_ERROR: Final = 2
"""The descriptor, as C{sys.stderr} may be a log by now."""

_log = Logger()


def check_bind(address: str, allowed: bool, what: str) -> None:
    """
    Refuse an address that other machines can reach, unless that is allowed (reliability X1).

    @param what: the server, such as C{the broker}.
    @raise SettingError: the address is not a loopback address, and C{allowed} is false.
    """
    if not is_loopback_host(address) and not allowed:
        raise SettingError(
            f"{what} would listen on {address}, where other machines can use it without authentication; "
            "use a loopback address, or --allow-insecure (allowInsecure=true) if the network is trusted"
        )


def probe_ports(env: IEnvironment, ports: Iterable[tuple[str, int, str]]) -> None:
    """
    Check that all ports are free before anything is started.

    @param ports: interface, port, and the server that uses it.
    @raise PortTaken: a port is in use.
    @raise SettingError: this process may not listen on a port.
    """
    for interface, port, what in ports:
        if not port:
            continue
        try:
            env.network.probe(endpoint(interface, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(f"port {port} of {interface}, for {what}, is in use by another process") from None
            raise SettingError(f"cannot listen on port {port} of {interface}: {error.strerror}") from None


def probe_store(env: IEnvironment, root: str) -> None:
    """
    Check that the store can be locked, before anything is started.

    @raise StoreHeld: another process uses it.
    @raise SettingError: the directory cannot be created or used.
    """
    try:
        env.files.make_directories(root)
        env.files.lock_directory(root).release()
    except OSError as error:
        raise SettingError(f"the store directory {root} cannot be used: {error.strerror}") from None


def check_tables(env: IEnvironment, tables: Tables, reset: Iterable[str]) -> None:
    """
    Check that all tables can be read, before anything is started.

    @param reset: main files of tables to empty if they are unreadable; readable ones stay as they are.
    @raise SettingError: some cannot be read, each is named; or C{reset} names no table.
    """
    by_path = {env.files.real(file.path): (file, load) for file, load in tables}
    for path in reset:
        found = by_path.get(env.files.real(path))
        if found is None:
            names = ", ".join(sorted(file.path for file, _ in tables))
            raise SettingError(f"--reset-broken {path}: not a table of this process; these are: {names}")
        file, load = found
        try:
            load()
        except BrokenTable:
            for moved in file.set_aside():
                _log.warn(
                    "{path} cannot be read; it is kept as {moved}, and the table starts empty", path=path, moved=moved
                )
        else:
            _log.warn("{path} can be read and is left as it is", path=path)
    broken = []
    for _, load in tables:
        try:
            load()
        except BrokenTable as error:
            broken.append(str(error))
    if broken:
        raise SettingError("; ".join(broken))


def server_tls(env: IEnvironment, config: TlsConfig, protocols: Sequence[bytes] = ()) -> ServerTLS | None:
    """
    Load the certificate of this process's ports.

    @param protocols: the protocols to select by ALPN.
    @return: C{None} if TLS is off.
    @raise SettingError: it cannot be used, or other users can read the private key.
    """
    if config.mode == Mode.DISABLED:
        return None
    if config.server_cert_path is None or config.server_key_path is None:
        raise SettingError(f"tls.server.mode={config.mode} needs tls.server.certPath and tls.server.keyPath")
    return ServerTLS(
        env,
        KeyFiles(config.server_cert_path, config.server_key_path, config.server_key_password),
        mode=Mode(config.mode),
        trust=config.server_trust_cert_path,
        clients=ClientCertificates(config.server_need_client_auth),
        protocols=protocols,
    )


def client_tls(env: IEnvironment, config: TlsConfig) -> ClientTLS | None:
    """
    Load the TLS settings of connections to other processes.

    @return: C{None} if TLS is off.
    @raise SettingError: a file cannot be used.
    """
    if not config.client_enable:
        return None
    return ClientTLS(
        env,
        trust=config.client_trust_cert_path,
        certificate=config.client_cert_path,
        key=config.client_key_path,
        password=config.client_key_password,
    )


def server_limits(config: LimitsConfig, idle: float) -> Limits:
    """
    Return the limits of a server's connections.

    @param idle: seconds of silence after which a connection is closed.
    """
    return Limits(
        frame=config.frame_max_length,
        connections=config.max_connections,
        per_address=config.max_connections_per_address,
        first_frame=config.first_frame_timeout,
        partial=config.frame_timeout,
        partial_rate=config.frame_minimum_rate,
        idle=idle,
        in_flight=config.max_requests_in_flight,
        unsent_pause=config.unsent_pause_size,
        unsent_resume=config.unsent_resume_size,
        unsent_seconds=config.unsent_timeout,
        unsent_close=config.unsent_max_size,
    )


def memory_budget(env: IEnvironment, config: LimitsConfig) -> MemoryBudget:
    """
    Return the one memory budget of a process.

    @raise SettingError: it is smaller than four of the longest frames.
    """
    limit = config.memory_budget
    least = SMALLEST_PART * config.frame_max_length
    if limit is None:
        limit = max(least, min(DEFAULT, env.host.memory // 4))
    elif limit < least:
        raise SettingError(
            f"memoryBudget is {limit} B, which is less than four frames of frameMaxLength={config.frame_max_length} B"
        )

    def return_memory() -> None:
        env.threads.run("memory", env.host.return_memory).addErrback(
            lambda failure: _log.failure("memory cannot be given back to the system", failure=failure)
        )

    return MemoryBudget(env.clock, limit, config.frame_max_length, return_memory)


def process_sweeper(env: IEnvironment, config: LimitsConfig) -> Sweeper:
    """
    Return the timers and the memory budget that the connections of one process share.

    @raise SettingError: see L{memory_budget}.
    """
    return Sweeper(env.clock, memory_budget(env, config), poller=env.network.poller)


def probe_log(env: IEnvironment, path: str | None) -> None:
    """
    Check that the log file can be written, before twistd opens it.

    @raise SettingError: it cannot.
    """
    if not path or path == "-":
        return
    try:
        env.files.append(path, b"")
    except OSError as error:
        raise SettingError(
            f"the log file {path} cannot be written: {error.strerror}; use --logfile to give another"
        ) from None


def probe_pid_file(env: IEnvironment, path: str | None, directory: str | None) -> None:
    """
    Check that the pid file can be written, before twistd makes the process a daemon.

    The check writes a file beside it: twistd takes an empty pid file for a broken one.

    @param directory: twistd's C{--rundir}; a relative path is below it.
    @raise SettingError: it cannot be written.
    """
    if not path:
        return
    probe = os.path.join(directory or ".", f"{path}.{os.getpid()}")
    try:
        env.files.create(probe, b"")
        env.files.remove(probe)
    except OSError as error:
        raise SettingError(
            f"the pid file {path} cannot be written: {error.strerror}; use --pidfile to give another path"
        ) from None


class PortTaken(SettingError):
    """A port is in use: a later start may succeed."""


def status_of(error: BaseException) -> int:
    """Return the exit status for an error at the start."""
    if isinstance(error, PortTaken | StoreHeld):
        return TRY_AGAIN
    return FAILED if isinstance(error, StoreError) else WRONG_SETTING


class Process:
    """The signals and the exit status of this process."""

    def __init__(self, reactor: Any, program: str, notifier: Notifier) -> None:
        """
        @param notifier: notified when all parts serve, and of reloads.
        """
        self._reactor = reactor
        self._program = program
        self._notifier = notifier
        self._starting = 0
        self._status = 0
        self._reloads: list[Callable[[], None]] = []

    def install(self) -> None:
        """
        Handle signals once the reactor runs, and set the exit status.

        A signal that ends the process at once leaves the stacks of all threads on standard error: SIGBUS comes where
        a disk that died cannot serve a page of a mapped file.
        """
        atexit.register(self._leave)
        faulthandler.enable(_STANDARD_ERROR)
        self._reactor.callWhenRunning(self._handle_signals)

    def _handle_signals(self) -> None:
        ending.hear(self._reactor, self.stop)
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self.reload))

    def on_reload(self, reload: Callable[[], None]) -> None:
        """Call this at SIGHUP."""
        self._reloads.append(reload)

    def reload(self) -> None:
        """Read reloadable files again; one that cannot be used stays as it was."""
        serving = not self._starting
        if serving:
            self._notifier.reloading()
        for reload in self._reloads:
            try:
                reload()
            except SettingError as error:
                _log.error("not reloaded: {error}", error=str(error))
            else:
                _log.info("certificates and access rules reloaded")
        if serving:
            self._notifier.ready()

    def stop(self, status: int = 0) -> None:
        """
        Stop the reactor, which stops all services (D14). Only the first call counts, but for the exit status, which
        the first failure decides.
        """
        self._status = self._status or status
        if not self._reactor.running:  # services start before the reactor does
            self._reactor.callWhenRunning(self.stop)
            return
        ending.stop(self._reactor)

    def watch(self, starting: Deferred[Any]) -> None:
        """End the process if this start fails; the process is ready when all watched starts have succeeded."""
        self._starting += 1
        starting.addCallbacks(self._serves, self._fail)

    def _serves(self, part: Any) -> Any:
        self._starting -= 1
        if not self._starting:
            self._notifier.ready()
        return part

    def _fail(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, SettingError | StoreError):
            _log.critical("{program}: {sentence}", program=self._program, sentence=str(error))
            sys.stderr.write(f"{self._program}: {error}\n")
            self.stop(status_of(error))
        else:
            _log.failure("{program} cannot start", failure, program=self._program)
            sys.stderr.write(f"{self._program}: cannot start: {error}\n")
            self.stop(FAILED)

    def failed_store(self, reason: str) -> None:
        """End the process because the store failed permanently."""
        _log.critical("{program} ends: the store failed: {reason}", program=self._program, reason=reason)
        self.stop(FAILED)

    def _leave(self) -> None:
        if self._status:
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._status)


def checked(program: str, check: Any, *args: Any) -> Any:
    """Return C{check(*args)}; on a known error write one sentence and exit. @raise SystemExit: on such an error."""
    try:
        return check(*args)
    except (SettingError, StoreError) as error:
        end(program, str(error), status_of(error))
