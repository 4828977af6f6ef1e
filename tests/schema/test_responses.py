"""Tests of smartgo.schema.responses."""

from __future__ import annotations

import itertools
import json
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandlayout import BINARY, JSON
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import OffsetResponse
from smartgo.schema.headers.pull import PullResponse
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.responses import offset_response, pull_response, send_pieces, send_response


class ResponseTests(SynchronousTestCase):
    """Ready-made frames against those of the general encoder."""

    def same(
        self, frame: bytes, request: Command, code: int, remark: str | None, header: Header, size: int = 0
    ) -> None:
        """Check that a frame says what the general encoder would, byte for byte in the binary encoding."""
        built = encode(request.answer(code, remark, header, body=b"\0" * size))
        frame += b"\0" * size
        self.assertEqual(int.from_bytes(frame[:4], "big"), len(frame) - 4)
        if request.encoding == BINARY:
            self.assertEqual(frame, built)
        else:
            raw = decode(frame[4:]).raw
            self.assertEqual(json.loads(raw), json.loads(decode(built[4:]).raw))
            self.assertNotIn(b" ", raw.replace(b'say \\"no such\\" ', b""))

    def numbers(self) -> list[int]:
        """Pick numbers from the ends and the middle of a long."""
        random = Random(5)
        return [0, -1, 1, 2**63 - 1, -(2**63), *(random.getrandbits(random.randrange(1, 63)) for _ in range(20))]

    def test_send(self) -> None:
        """The answer to a send is the same from the ready-made text."""
        regions = ["DefaultRegion", "100%d", 'a"b\\', "\u4e2d", "", "\ud800"]
        for encoding, region, trace in itertools.product((JSON, BINARY), regions, (True, False)):
            pieces = send_pieces(region, trace)
            for number in self.numbers():
                opaque, queue = number % 2**31, number % 1000
                request = Command(310, opaque, encoding=encoding)
                frame = send_response(encoding, opaque, "0A00000200002A9F,FF", queue, number, pieces)
                text = region.replace("\ud800", "?")
                header = SendResponse("0A00000200002A9F,FF", queue, number, region=text, trace_on=trace)
                self.same(frame, request, 0, None, header)

    def test_batch(self) -> None:
        """The ids of the largest batch fit, in both encodings."""
        ids = ",".join(f"0A00000200002A9F{number:016X}" for number in range(4096))
        for encoding in (JSON, BINARY):
            request = Command(320, 9, encoding=encoding)
            frame = send_response(encoding, 9, ids, 0, 5, send_pieces("R", False))
            self.same(frame, request, 0, None, SendResponse(ids, 0, 5, region="R", trace_on=False))

    def test_pull(self) -> None:
        """The answer to a pull is the same from the ready-made text, whatever the remark, and announces its body."""
        for encoding, remark in itertools.product(
            (JSON, BINARY), (None, "FOUND", 'say "no such" 100%', "\u4e2d", "\udfff")
        ):
            for number in self.numbers():
                request = Command(11, -5, encoding=encoding)
                size = abs(number) % 100
                frame = pull_response(encoding, -5, 20, remark, 1, number, 0, 2**63 - 1, size)
                header = PullResponse(1, number, 0, 2**63 - 1)
                self.same(frame, request, 20, remark and remark.replace("\udfff", "?"), header, size)

    def test_offset(self) -> None:
        """The answer to a request for an offset is the same from the ready-made text."""
        for encoding, number in itertools.product((JSON, BINARY), self.numbers()):
            request = Command(14, 2**31 - 1, encoding=encoding)
            self.same(offset_response(encoding, 2**31 - 1, number), request, 0, None, OffsetResponse(number))
