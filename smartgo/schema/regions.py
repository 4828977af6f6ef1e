"""
C{quarantine/regions.json}: the regions of a CommitLog that are known to be damaged, and are skipped by readers (S8).

A JSON array of objects::

    [{"offset": 1048576, "length": 4096, "reason": "body CRC differs", "topic": "T", "queue_id": 0, "queue_offset": 17,
      "found_ms": 1700000000000, "saved": "00000000000001048576-4096.bytes"}]

C{offset} is the physical offset of the first damaged byte, C{length} reaches to the next valid record or the file's
end. C{topic}, C{queue_id} and C{queue_offset} are what the damaged record says of itself, and are left out where that
cannot be read; C{found_ms} is when the damage was found; C{saved} names the file in C{quarantine/} that holds a copy of
the bytes; where regions that overlap were made one, of what was found last. A JSON file with one such object
stands beside each copy. What else an object holds is left alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.errors import BadBody

PATH: Final = "quarantine/regions.json"
"""Below the root of a store."""


class Region(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    One damaged region.

    @ivar offset: physical offset of its first byte.
    @ivar length: in bytes.
    @ivar reason: the check that failed.
    @ivar topic: what the damaged record says; empty where that cannot be read, and then the next two are -1.
    @ivar queue_offset: logical.
    @ivar found_ms: wall clock when the damage was found; 0 where that is not known.
    @ivar saved: the file in C{quarantine/} that holds a copy of the bytes; empty where there is none.
    """

    offset: int
    length: int
    reason: str = "known to be damaged"
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    found_ms: int = 0
    saved: str = ""

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        return self.offset + self.length


UNREADABLE: Final = "cannot be read"
"""What the reason of a region begins with that the disk gave an error for: the next start tries it again."""

_decoder: Final = msgspec.json.Decoder(list[Region])


def decode(raw: bytes) -> list[Region]:
    """
    Read a file's content; regions come out in order of their offsets.

    @raise BadBody: it is not what this format says.
    """
    try:
        found = _decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise BadBody(f"{PATH}: {error}") from None
    for region in found:
        if region.offset < 0 or region.length <= 0:
            raise BadBody(f"{PATH}: a region of {region.length} B at {region.offset}")
    return sorted(found, key=lambda region: region.offset)


def encode(regions: list[Region]) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(regions)
