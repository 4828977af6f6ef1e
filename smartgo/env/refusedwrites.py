"""
Writes to mapped files that the disk refuses, survived.

The kernel answers such a write, to a page of a mapping, with SIGBUS, which ends the process: a file system that shut
itself down, or a disk that is gone, would take every reader along. Here the page is replaced by a private copy of what
it holds, the write goes there, and the path of the file is noted: whoever wrote must look at the notes before it relies
on the write (docs/spec/reliability#D4). What was written is lost, and all that was read from the page stays readable
as long as the mapping is open: a file that is mapped again shows what the disk has.

A read of a page that the disk cannot give is not survived: there is nothing to put in its place. Linux alone.
"""

from __future__ import annotations

import ctypes
import mmap
import signal
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

_SA_SIGINFO: Final = 4
_CODE_AT: Final = 8  # of si_code in siginfo_t
_ADDRESS_AT: Final = 16  # of si_addr, on machines of 64 bits
_MASK_WORDS: Final = 16  # unsigned longs of sigset_t
_MREMAP: Final = 1 | 2  # MREMAP_MAYMOVE | MREMAP_FIXED
_ANONYMOUS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FAILED: Final = ctypes.c_void_p(-1).value
_TRIES: Final = 3  # faults of one page

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _SignalAction(ctypes.Structure):
    """C{struct sigaction} of glibc and musl."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * _MASK_WORDS),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class _Piece(ctypes.Structure):
    """C{struct iovec}."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    found = getattr(_libc, name)
    found.restype = result
    found.argtypes = arguments
    return found  # type: ignore[no-any-return]


_libc = ctypes.CDLL(None, use_errno=True)
_pointer, _size, _long = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long
_sigaction = _function("sigaction", ctypes.c_int, ctypes.c_int, _pointer, _pointer)
_mmap = _function("mmap", _pointer, _pointer, _size, ctypes.c_int, ctypes.c_int, ctypes.c_int, _long)
_mremap = _function("mremap", _pointer, _pointer, _size, _size, ctypes.c_int, _pointer)
_munmap = _function("munmap", ctypes.c_int, _pointer, _size)
_read_memory = _function(
    "process_vm_readv",
    ctypes.c_ssize_t,
    ctypes.c_int,
    _pointer,
    ctypes.c_ulong,
    _pointer,
    ctypes.c_ulong,
    ctypes.c_ulong,
)
_getpid = _function("getpid", ctypes.c_int)


class RefusedWrites:
    """Takes SIGBUS for a process, and notes which files it was about."""

    def __init__(self, paths: list[str]) -> None:
        """
        @param paths: gets the path of each file of which a write was refused.
        """
        self._paths = paths
        self._tries: dict[int, int] = {}  # by address of the page
        self._lock = Lock()  # a thread that handles the signal gets no second one before it returns
        self._taken = _Handler(self._take)
        self._before = _SignalAction()

    def install(self) -> None:
        """Take the signal from now on; this object must live until L{uninstall}."""
        handler = ctypes.cast(self._taken, ctypes.c_void_p).value
        action = _SignalAction(handler=handler, flags=_SA_SIGINFO)
        _sigaction(signal.SIGBUS, ctypes.byref(action), ctypes.byref(self._before))

    def uninstall(self) -> None:
        """Let the signal do what it did before."""
        _sigaction(signal.SIGBUS, ctypes.byref(self._before), None)

    def _take(self, number: int, info: int, context: int) -> None:
        """Handle the signal, inside the write that was refused; the write is tried again when this returns."""
        try:
            address = ctypes.c_void_p.from_address(info + _ADDRESS_AT).value or 0
            survived = self.replace(address)
        except BaseException:  # nothing may leave a signal handler
            survived = False
        if not survived:
            self.uninstall()  # the write, tried again, then ends the process as it would have
            if ctypes.c_int.from_address(info + _CODE_AT).value <= 0:
                signal.raise_signal(signal.SIGBUS)  # sent by a process: nothing is tried again

    def replace(self, address: int) -> bool:
        """
        Put a private copy in the place of a page of a mapped file, and note the path of the file.

        @return: false where the address is in no writable mapping of a file, or the page cannot be read either.
        """
        with self._lock:  # the calls into C let other threads run
            return self._replace(address - address % mmap.PAGESIZE)

    def _replace(self, page: int) -> bool:
        tries = self._tries[page] = self._tries.get(page, 0) + 1
        found = _mapping_of(page)
        if found is None or tries > _TRIES:
            return False
        shared, path = found
        if not shared:
            return True  # another thread wrote to the page as well, and was first
        copy = _mmap(None, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE, _ANONYMOUS, -1, 0)
        if copy == _FAILED:
            return False
        ours, theirs = _Piece(copy, mmap.PAGESIZE), _Piece(page, mmap.PAGESIZE)
        read = _read_memory(_getpid(), ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
        if read != mmap.PAGESIZE or _mremap(copy, mmap.PAGESIZE, mmap.PAGESIZE, _MREMAP, page) != page:
            _munmap(copy, mmap.PAGESIZE)
            return False
        self._paths.append(path)
        del self._tries[page]  # another mapping may come to lie here
        return True


def _mapping_of(address: int) -> tuple[bool, str] | None:
    """Return whether the writable mapping at an address is shared, and the path of its file; C{None}: there is none."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            bounds, rights, _offset, _device, _inode, *path = line.split(None, 5)
            begin, _, end = bounds.partition("-")
            if int(begin, 16) <= address < int(end, 16):
                return (rights[3] == "s", path[0].rstrip("\n") if path else "") if rights[1] == "w" else None
    return None
