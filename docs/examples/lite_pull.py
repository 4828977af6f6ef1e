"""Poll messages at the program's pace, and read some of them again; start a broker first (C{smartgo dev})."""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Client, ConsumeFromWhere, LitePullConsumer, LitePullSettings, Message, Producer, RealEnvironment


async def work(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "example-producers")
    await producer.start()
    queue = (await producer.send(Message(topic="Polled", body=b"number 0"))).queue
    for number in range(1, 10):
        await producer.send_to(Message(topic="Polled", body=b"number %d" % number), queue)

    settings = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = LitePullConsumer(client, "example-pollers", settings)
    consumer.subscribe("Polled")
    await consumer.start()
    count = 0
    while count < 10:
        messages = await consumer.poll()  # of one queue, in order; this commits those of the polls before
        count += len(messages)
    print("polled", count, "messages")

    await consumer.seek_to_begin(queue)
    (first, *_) = await consumer.poll()
    print("first again:", first.body.decode())
    await client.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
