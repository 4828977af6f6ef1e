"""
Send ten messages and consume them in a group, in a program that blocks.

Start a broker first (C{smartgo dev}), then run this file; the address of another registry may be given.
"""

import sys

from smartgo.sync import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer


def work(registry="localhost"):
    with Client(registry) as client:
        with Producer(client, "example-producers") as producer:
            for number in range(10):
                result = producer.send(Message(topic="Example", body=b"order %d" % number, tag="new"))
                print("sent", result.message_id, "to queue", result.queue.queue_id)

        seen = set()
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        with PushConsumer(client, "example-consumers", settings=settings) as consumer:
            consumer.subscribe("Example", "new")
            while len(seen) < 10:
                message = consumer.receive(timeout=30)  # this acknowledges the one before
                if message is None:
                    print("no message for 30 s")
                    break
                print("consumed", message.body.decode())
                seen.add(message.message_id)
            consumer.acknowledge()


if __name__ == "__main__":
    work(*sys.argv[1:])
