"""
Send and consume a message with a client that writes message traces, then read what the client traced.

Start a broker first (C{smartgo dev}), then run this file; the address of another registry may be given.
"""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Admin, Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer, RealEnvironment


async def work(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry, trace=True)
    producer = Producer(client, "shop")
    await producer.start()
    sent = await producer.send(Message(topic="Traced", body=b"7 apples"))

    consumed = Deferred()

    def listener(messages):
        if not consumed.called:
            consumed.callback(None)

    settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer = PushConsumer(client, "billing", listener, settings)
    consumer.subscribe("Traced")
    await consumer.start()
    await consumed
    await client.stop()  # sends the traces that are left

    reader = Client(RealEnvironment(reactor), registry)
    trace = await Admin(reader).messages.trace(sent.message_id)
    for event in trace.events:
        print(event.kind, "by", event.group + ":", event.result)
    await reader.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
