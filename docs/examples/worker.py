"""
A worker in the manner of Celery: functions become tasks, failed tasks are tried again later, then become dead letters.

Start a broker (C{smartgo dev}), then C{python worker.py}; give C{TASKS.later("greet", "Ada")} from another program.
"""

import json
import os
import signal

from smartgo.sync import Client, ConsumeFromWhere, ConsumerSettings, Message, Producer, PushConsumer


class Tasks:
    """Functions that are called in workers, by the messages of a topic."""

    def __init__(self, registry, topic="Tasks", group="workers", retries=3):
        self._client = Client(registry)
        self._producer = Producer(self._client, f"{group}-senders")
        self._topic, self._group, self._retries = topic, group, retries
        self._functions = {}

    def task(self, function):
        """Decorate a function that workers may call."""
        self._functions[function.__name__] = function
        return function

    def later(self, name, *arguments, delay=0.0):
        """Have a worker call a function, C{delay} seconds from now; return the id of the message."""
        body = json.dumps({"name": name, "arguments": arguments}).encode()
        return self._producer.send(Message(topic=self._topic, body=body, tag=name, delay=delay)).message_id

    def work(self):
        """Return a consumer that calls tasks in threads: C{with tasks.work(): ...}."""
        settings = ConsumerSettings(
            begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, max_reconsume=self._retries, concurrency=8
        )
        consumer = PushConsumer(self._client, self._group, self._call, settings)
        consumer.subscribe(self._topic)
        return consumer

    def _call(self, messages):
        for message in messages:
            task = json.loads(message.body)
            function, arguments = self._functions[task["name"]], task["arguments"]
            function(*arguments)  # if it raises, the message comes again after 10 s, 30 s, 1 min ...

    def __enter__(self):
        """Connect."""
        self._client.start()
        self._producer.start()
        return self

    def __exit__(self, *_):
        """End the producer and all consumers."""
        self._client.stop()


TASKS = Tasks(os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))


@TASKS.task
def greet(name):
    """Print a greeting."""
    print(f"Hello, {name}!", flush=True)


if __name__ == "__main__":
    with TASKS, TASKS.work():
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
