"""
Blocking connections to brokers and registries, and a clock: the door of this package to the network.

Spark's workers have no environment of smartgo's and no reactor, and read one range at a time: a blocking socket is all
that they need.
"""

from __future__ import annotations

import os
import socket
import ssl
import stat
import struct
import time
from typing import Final, Protocol

from smartgo.errors import BadHeader, CallTimedOut, FramingError, NotConnected, SettingError
from smartgo.schema.address import parse_address
from smartgo.schema.command import FRAME_LIMIT, Command, decode, encode
from smartgo.spark.network.access import ClusterAccess, TLSFileNames

_LENGTH: Final = struct.Struct(">i")
_BUFFER: Final = 1 << 18
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""What TLS 1.2 may use, as in L{smartgo.net.tls}; TLS 1.3 has suites of its own, all of them good."""
_FORBIDDEN_MODE: Final = 0o027


class IPauseClock(Protocol):
    """Time, as this package needs it."""

    def seconds(self) -> float:
        """Return seconds that only grow."""

    def pause(self, seconds: float) -> None:
        """Wait."""


class MachineClock:
    """The clock of the machine."""

    def seconds(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class IConnection(Protocol):
    """Requests out, answers in; several requests may be under way, and answers come in any order."""

    def send(self, request: Command) -> int:
        """Send a request; return its number, which its answer repeats. @raise NotConnected"""

    def receive(self, timeout: float) -> Command:
        """Wait for an answer, so many seconds. @raise CallTimedOut @raise NotConnected"""

    def close(self) -> None:
        """Close the connection."""


class BlockingDial(Protocol):
    """Function that connects."""

    def __call__(self, address: str, access: ClusterAccess, timeout: float) -> IConnection:
        """Connect within so many seconds. @raise NotConnected"""


class BlockingConnection:
    """A connection over a blocking socket."""

    def __init__(self, address: str, access: ClusterAccess, timeout: float) -> None:
        """
        Connect.

        @param address: C{host:port}.
        @param timeout: seconds for that, the handshake of TLS included.
        @raise NotConnected: nobody listens there, or TLS is not agreed on.
        @raise SettingError: a file for TLS is missing or wrong.
        """
        self._address = address
        self._signer = access.signer
        self._opaque = 0
        context = None if access.tls is None else tls_context(access.tls)
        try:
            host, port = parse_address(address)
            plain = socket.create_connection((host, port), timeout)
        except (OSError, ValueError) as error:
            raise NotConnected(f"{address} cannot be reached: {_reason(error)}") from None
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None or access.tls is None:
                self._socket = plain
            else:
                self._socket = context.wrap_socket(plain, server_hostname=access.tls.name or host)
        except OSError as error:
            plain.close()
            raise NotConnected(f"TLS with {address} failed: {_reason(error)}") from None
        self._file = self._socket.makefile("rb", _BUFFER)

    def send(self, request: Command) -> int:
        """Send a request; return its number, which its answer repeats. @raise NotConnected"""
        self._opaque += 1
        request.opaque = self._opaque
        if self._signer is not None:
            self._signer.sign(request)
        try:
            self._socket.sendall(encode(request))
        except OSError as error:
            raise NotConnected(f"the connection to {self._address} was lost: {_reason(error)}") from None
        return self._opaque

    def receive(self, timeout: float) -> Command:
        """
        Wait for an answer.

        @param timeout: seconds of silence.
        @raise CallTimedOut: none came; the connection is of no more use.
        @raise NotConnected: the connection was lost, or what came is no answer.
        """
        try:
            self._socket.settimeout(timeout)
            (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
            if not 0 < size <= FRAME_LIMIT:
                raise NotConnected(f"{self._address} sent a frame of {size} B; the limit is {FRAME_LIMIT} B")
            return decode(self._read(size))
        except TimeoutError:
            raise CallTimedOut(self._address, timeout) from None
        except OSError as error:
            raise NotConnected(f"the connection to {self._address} was lost: {_reason(error)}") from None
        except (FramingError, BadHeader) as error:
            raise NotConnected(f"{self._address} sent what is no answer: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def _read(self, count: int) -> bytes:
        data: bytes = self._file.read(count)
        if len(data) < count:
            raise NotConnected(f"{self._address} closed the connection")
        return data


def tls_context(files: TLSFileNames) -> ssl.SSLContext:
    """
    Return how to speak TLS: 1.2 or newer with forward secrecy, as L{smartgo.net.tls.ClientTLS} does.

    @raise SettingError: a file is missing, unreadable, too readable, or does not fit the others.
    """
    try:
        context = ssl.create_default_context(cafile=files.trust)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        if files.certificate is not None and files.key is not None:
            mode = stat.S_IMODE(os.stat(files.key).st_mode)
            if mode & _FORBIDDEN_MODE:
                raise SettingError(
                    f"the private key {files.key} may be read or changed by others (mode {mode:04o}); chmod 600 it"
                )
            context.load_cert_chain(files.certificate, files.key, files.password or "")
    except OSError as error:
        named = ", ".join(filter(None, (files.trust, files.certificate, files.key)))
        raise SettingError(f"the files for TLS ({named}) cannot be used: {_reason(error)}") from None
    return context


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return str(error)
