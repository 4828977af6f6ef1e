"""Ask a service for prices by requests, and wait for its replies; start a broker first (C{smartgo dev})."""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Admin, Client, Message, PeerRefused, Producer, PushConsumer, RealEnvironment


async def serve(client, producer):
    prices = {b"apples": b"3"}

    async def listener(messages):
        for message in messages:
            try:
                await producer.reply(message, prices.get(message.body, b"unknown"))
            except PeerRefused as refusal:  # whoever asked is gone: nobody needs a redelivery
                print("no reply to", message.message_id, refusal)

    consumer = PushConsumer(client, "price-services", listener)
    consumer.subscribe("Prices")
    await consumer.start()


async def work(reactor, registry="127.0.0.1:9876"):
    env = RealEnvironment(reactor)
    service, asker = Client(env, registry), Client(env, registry)  # as a rule, these are two programs
    answering, asking = Producer(service, "price-services"), Producer(asker, "price-askers")
    await answering.start()
    await asking.start()
    await Admin(service).topics.create("Prices")  # else the service learns of it after up to 2 s
    await serve(service, answering)

    for fruit in ("apples", "pears"):
        reply = await asking.request(Message(topic="Prices", body=fruit.encode()), timeout=30.0)
        print(f"price of {fruit}:", reply.body.decode())
    await asker.stop()
    await service.stop()


def main(reactor, *arguments):
    return Deferred.fromCoroutine(work(reactor, *arguments))


if __name__ == "__main__":
    react(main, sys.argv[1:])
