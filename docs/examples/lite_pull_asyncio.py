"""Poll messages at the program's pace, on asyncio; start a broker first (C{smartgo dev})."""

import asyncio
import sys

from smartgo.aio import Client, ConsumeFromWhere, LitePullConsumer, LitePullSettings, Message, Producer


async def work(registry="localhost"):
    async with Client(registry) as client:
        async with Producer(client, "example-producers") as producer:
            for number in range(10):
                await producer.send(Message(topic="Polled", body=b"number %d" % number))

        settings = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer = LitePullConsumer(client, "example-pollers", settings)
        consumer.subscribe("Polled")
        async with consumer:
            count = 0
            while count < 10:
                messages = await consumer.poll(timeout=30)  # of one queue; this commits those of the polls before
                count += len(messages)
        print("polled", count, "messages")


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
