"""Hosts and message ids by columns."""

from __future__ import annotations

import binascii
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.schema.message import unpack_host
from smartgo.spark.arrays import merged, of_even_texts, strings

_V4: Final = 8
_V6: Final = 20


def host_texts(raw: ndarray[Any, Any], is_v6: ndarray[Any, Any]) -> pa.Array:
    """
    Return hosts as text: C{10.0.0.1:10911}, C{[fe80::1]:10911}.

    @param raw: a row of bytes for each, 8 or 20 wide; IPv4 in the first 8.
    """
    return _by_family(raw, is_v6, lambda rows: _texts_of(np.ascontiguousarray(rows)))


def id_texts(raw: ndarray[Any, Any], is_v6: ndarray[Any, Any], offsets: ndarray[Any, Any]) -> pa.Array:
    """
    Return offset ids: host and physical offset in upper-case hex.

    @param raw: the store hosts, as for L{host_texts}.
    """
    tails = offsets.astype(">i8").view("u1").reshape(-1, 8)
    return _by_family(np.hstack([raw, tails]) if raw.shape[1] == _V4 else _behind(raw, is_v6, tails), is_v6, _hex)


def _behind(raw: ndarray[Any, Any], is_v6: ndarray[Any, Any], tails: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Put an offset right behind each host, whatever its length."""
    whole = np.zeros((len(raw), _V6 + 8), "u1")
    whole[:, :_V6] = raw
    whole[is_v6, _V6:] = tails[is_v6]
    whole[~is_v6, _V4 : _V4 + 8] = tails[~is_v6]
    return whole


def _hex(rows: ndarray[Any, Any]) -> pa.Array:
    digits = binascii.hexlify(np.ascontiguousarray(rows).data).upper()
    return of_even_texts(np.frombuffer(digits, "u1").reshape(len(rows), 2 * rows.shape[1]))


def _texts_of(rows: ndarray[Any, Any]) -> pa.Array:
    """Turn each host that occurs into text once."""
    width = rows.shape[1]
    known = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(rows)])
    known = known.dictionary_encode()
    return strings([_text(raw) for raw in known.dictionary.to_pylist()]).take(known.indices)


@lru_cache(maxsize=4096)
def _text(raw: bytes) -> str:
    ip, port = unpack_host(raw)
    return f"[{ip}]:{port}" if len(raw) == _V6 else f"{ip}:{port}"


def _by_family(rows: ndarray[Any, Any], is_v6: ndarray[Any, Any], make: Any) -> pa.Array:
    """Make both families' texts, each from rows of its own width."""
    wide = rows.shape[1] - (_V6 - _V4)  # what IPv4 rows use of the width there is
    if not is_v6.any():
        return make(rows if rows.shape[1] in (_V4, 2 * _V4) else rows[:, :wide])
    if is_v6.all():
        return make(rows)
    four, six = np.flatnonzero(~is_v6), np.flatnonzero(is_v6)
    return merged([(four, make(rows[four, :wide])), (six, make(rows[six]))], len(rows))
