"""The recorded remoting frames, for tests; see tests/golden/wire/README.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

_DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "golden", "wire")


class Recorded(NamedTuple):
    """
    One frame as it was recorded.

    @ivar header: what the recorder read in the header.
    @ivar about: the line's other members.
    @ivar frame: the bytes after the length word.
    @ivar cut: whether the end of the body is missing.
    """

    header: dict[str, Any]
    about: dict[str, Any]
    frame: bytes
    cut: bool


def recorded() -> Iterator[Recorded]:
    """Yield every recorded frame."""
    for name in sorted(os.listdir(_DIRECTORY)):
        if name.endswith(".jsonl"):
            with open(os.path.join(_DIRECTORY, name), encoding="utf-8") as lines:
                for line in lines:
                    about = json.loads(line)
                    frame = bytes.fromhex(about.pop("hex"))[4:]
                    yield Recorded(about.pop("header"), about | {"file": name}, frame, "note" in about)


def bodies(code_name: str, kind: str) -> list[bytes]:
    """
    Collect the whole bodies of one kind of exchange.

    @param code_name: the request's name.
    @param kind: C{request} (one-way ones included) or C{response}.
    """
    found = []
    for each in recorded():
        about = each.about
        name = about.get("reply_to") if kind == "response" else about["code_name"]
        if name == code_name and (about["kind"] == "response") == (kind == "response") and not each.cut:
            body = each.frame[4 + about["headerLength"] :]
            if body:
                found.append(body)
    return found
