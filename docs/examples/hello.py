"""Send one message to a broker on this machine (C{smartgo dev}), or to that of another registry."""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from smartgo import Client, Message, Producer, RealEnvironment


async def greet(reactor, registry="127.0.0.1:9876"):
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "greeters")
    await producer.start()
    result = await producer.send(Message(topic="Greetings", body=b"hello from Python", keys="greeting-3"))
    print("sent", result.message_id)
    await client.stop()


if __name__ == "__main__":
    react(lambda reactor, *arguments: Deferred.fromCoroutine(greet(reactor, *arguments)), sys.argv[1:])
