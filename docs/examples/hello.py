"""Send one message to a broker on this machine (C{smartgo dev}), or to that of another registry."""

import asyncio
import sys

from smartgo.aio import Client, Message, Producer


async def greet(registry="localhost"):
    async with Client(registry) as client, Producer(client, "greeters") as producer:
        result = await producer.send(Message(topic="Greetings", body=b"hello from Python", keys="greeting-3"))
        print("sent", result.message_id)


if __name__ == "__main__":
    asyncio.run(greet(*sys.argv[1:]))
