"""
A registry that answers wrongly: what it is told it takes, what it is asked for it answers with nonsense, in turn.

Run as C{python -m tests.chaos.wrongregistry PORT}; says on standard output how many questions it has answered so.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys

_ROUTE = 105
_TOPIC_NOT_EXIST = 17
_NONSENSE: tuple[tuple[int, bytes], ...] = (
    (0, b""),
    (0, b"no route"),
    (0, b'{"queueDatas":[],"brokerDatas":[]}'),
    (0, b'{"queueDatas":{"a":1},"brokerDatas":7}'),
    (1, b""),
    (_TOPIC_NOT_EXIST, b""),
)
"""Codes and bodies of answers to questions for a route."""


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    nonsense = itertools.cycle(_NONSENSE)
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            request = json.loads(frame[4 : 4 + (int.from_bytes(frame[:4], "big") & 0xFFFFFF)])
            code, body = 0, b""
            if request["code"] == _ROUTE:
                code, body = next(nonsense)
                sys.stdout.write("answered\n")
                sys.stdout.flush()
            answer = {"code": code, "flag": 1, "language": "OTHER", "opaque": request["opaque"], "version": 0}
            header = json.dumps(answer).encode()
            writer.write(
                (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body
            )
            await writer.drain()
    writer.close()


async def _main(port: int) -> None:
    async with await asyncio.start_server(_serve, "0.0.0.0", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1])))
