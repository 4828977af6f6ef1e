"""Network namespaces made by C{ip netns}: programs started inside one, and sockets opened inside one."""

from __future__ import annotations

import ctypes
import os
import socket
import threading

_CLONE_NEWNET = 0x40000000


def enter(network: str) -> list[str]:
    """
    Return the words before a command that is to run in a namespace; none for the machine's own.

    It is not C{ip netns exec}: that one also makes a mount namespace, in which an unmounted disk would live on.
    """
    return ["nsenter", f"--net=/run/netns/{network}", "--"] if network else []


def connect(network: str, address: tuple[str, int], timeout: float) -> socket.socket:
    """
    Return a connection made from inside a namespace; the empty text is the machine's own.

    @raise OSError: there is no such namespace, or nobody listens there.
    """
    if not network:
        return socket.create_connection(address, timeout)
    made = _open_inside(network)
    try:
        made.settimeout(timeout)
        made.connect(address)
    except BaseException:
        made.close()
        raise
    return made


def _open_inside(network: str) -> socket.socket:
    """Return an unconnected socket: it belongs to the namespace of the thread that opened it, whoever uses it."""
    opened: list[socket.socket] = []
    failed: list[OSError] = []

    def open_one() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            with open(f"/run/netns/{network}", "rb") as file:
                if libc.setns(file.fileno(), _CLONE_NEWNET):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), network)
            opened.append(socket.socket())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=open_one)  # setns changes the thread that calls it, so it must be one of its own
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return opened[0]
