"""
Let the client's log go through Python's logging module; start a broker first (C{smartgo dev}).

The listener fails once: the log has that with its traceback, and the message comes again after 10 s.
"""

import asyncio
import logging
import sys

from twisted.logger import STDLibLogObserver, globalLogBeginner

from smartgo.aio import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer


async def work(registry="localhost"):
    consumed = asyncio.Event()

    async def listener(messages):
        if messages[0].reconsume_times == 0:
            raise LookupError("no such order")
        consumed.set()

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with Client(registry) as client, Producer(client, "example-producers") as producer:
        await producer.send(Message(topic="Logged", body=b"order"))
        consumer = PushConsumer(client, "example-loggers", listener, settings)
        consumer.subscribe("Logged")
        async with consumer:
            await consumed.wait()
    logging.getLogger("example").info("consumed")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    globalLogBeginner.beginLoggingTo([STDLibLogObserver("smartgo")], redirectStandardIO=False)
    asyncio.run(work(*sys.argv[1:]))
