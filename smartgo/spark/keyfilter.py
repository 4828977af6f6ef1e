"""The rows of a piece of the log that have a key."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy import ndarray

from smartgo.schema import properties
from smartgo.spark.walk import Piece


def rows_of_key(piece: Piece, key: str | None, unique_key: str | None) -> ndarray[Any, Any]:
    """
    Tell which rows of a piece have a key.

    The bytes of the key are searched for in the buffer; only properties that hold them are decoded.

    @param key: one of the words of a message's keys, C{None} for any.
    @param unique_key: the id that its client gave the message, C{None} for any.
    @return: an array of truth values.
    """
    found = np.zeros(len(piece.topics), bool)
    begins, ends = piece.columns.spans["properties"]
    word = (unique_key if key is None else key) or ""
    last = -1
    for match in re.finditer(re.escape(word.encode()), piece.view):
        row = int(np.searchsorted(begins, match.start(), "right")) - 1
        if row <= last or match.end() > ends[row]:
            continue
        last = row
        pairs = properties.decode(piece.view[begins[row] : ends[row]])
        has_key = key is None or key in properties.split_keys(pairs.get(properties.KEYS, ""))
        found[row] = has_key and unique_key in (None, pairs.get(properties.UNIQ_KEY))
    return found
