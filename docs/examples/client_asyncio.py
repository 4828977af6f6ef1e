"""
Send ten messages and consume them in a group, on asyncio.

Start a broker first (C{smartgo dev}), then run this file; the address of another registry may be given.
"""

import asyncio
import sys

from smartgo.aio import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer


async def work(registry="localhost"):
    async with Client(registry) as client:
        async with Producer(client, "example-producers") as producer:
            for number in range(10):
                result = await producer.send(Message(topic="Example", body=b"order %d" % number, tag="new"))
                print("sent", result.message_id, "to queue", result.queue.queue_id)

        seen = set()
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with PushConsumer(client, "example-consumers", settings=settings) as consumer:
            consumer.subscribe("Example", "new")
            async for message in consumer:
                print("consumed", message.body.decode())
                seen.add(message.message_id)
                if len(seen) >= 10:
                    consumer.acknowledge()  # the loop ends here, and asks for no next message
                    break


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
