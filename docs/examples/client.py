"""
Send ten messages and consume them in a group.

Start a broker first (C{smartgo dev}), then run this file; the address of another registry may be given.
"""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer, RealEnvironment


async def work(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "example-producers")
    await producer.start()
    for number in range(10):
        result = await producer.send(Message(topic="Example", body=b"order %d" % number, tag="new"))
        print("sent", result.message_id, "to queue", result.queue.queue_id)

    done = Deferred()
    seen = set()

    async def listener(messages):
        for message in messages:
            print("consumed", message.body.decode())
            seen.add(message.message_id)
        if len(seen) >= 10 and not done.called:
            done.callback(None)

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, "example-consumers", listener, settings)
    consumer.subscribe("Example", "new")
    await consumer.start()
    await done
    await client.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
