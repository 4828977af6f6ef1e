"""
A proxy that delays: every TCP connection that a host opens passes through it, each piece as late as it is told.

There is no other way to delay packets without the kernel's network emulator. The namespace redirects outgoing
connections here; those of the proxy itself carry a mark. Run as a program it reads seconds from standard input, a
number a line, and answers each with the count of pieces that it has held back since the line before.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys

PORT = 9
MARK = 77
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST of netfilter
_PIECE = 65536


class DelayingProxy:
    """
    Joins each connection to the place that it was opened to.

    @ivar seconds: by how much every piece is late, in either direction.
    @ivar held: pieces held back so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.held = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join one connection until either end closes."""
        loop = asyncio.get_running_loop()
        accepted = writer.get_extra_info("socket")
        port, packed = struct.unpack("!2xH4s8x", accepted.getsockopt(socket.SOL_IP, _ORIGINAL_DESTINATION, 16))
        outgoing = socket.socket()
        outgoing.setblocking(False)
        outgoing.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        outgoing.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.sock_connect(outgoing, (socket.inet_ntoa(packed), port))
        except OSError:
            outgoing.close()
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(sock=outgoing)
        ways = [asyncio.create_task(self._pass(reader, back)), asyncio.create_task(self._pass(there, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in ways:
            each.cancel()
        for end in (writer, back):
            end.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on pieces in order, each as late as is told when it comes."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def take() -> None:
            with contextlib.suppress(OSError):
                while data := await reader.read(_PIECE):
                    self.held += self.seconds > 0
                    await waiting.put((loop.time() + self.seconds, data))
            await waiting.put((loop.time() + self.seconds, b""))

        taking = asyncio.create_task(take())
        try:
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(due - loop.time(), 0))
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            return
        finally:
            taking.cancel()


async def _main() -> None:
    proxy = DelayingProxy()
    server = await asyncio.start_server(proxy.serve, "0.0.0.0", PORT)
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while line := await commands.readline():
        proxy.seconds = float(line)
        held, proxy.held = proxy.held, 0
        sys.stdout.write(f"{held}\n")
        sys.stdout.flush()
    server.close()


if __name__ == "__main__":
    asyncio.run(_main())
