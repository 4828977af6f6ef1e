"""
C{quarantine/regions.json}: the regions of a CommitLog that are known to be damaged, and are skipped by readers (S8).

A JSON array of objects::

    [{"offset": 1048576, "length": 4096, "reason": "body CRC differs"}]

C{offset} is the physical offset of the first damaged byte, C{length} reaches to the next valid record or the file's
end. What else an object holds is left alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.errors import BadBody

PATH: Final = "quarantine/regions.json"
"""Below the root of a store."""


class Region(msgspec.Struct, frozen=True):
    """
    One damaged region.

    @ivar offset: physical offset of its first byte.
    @ivar length: in bytes.
    """

    offset: int
    length: int
    reason: str = "known to be damaged"

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        return self.offset + self.length


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
