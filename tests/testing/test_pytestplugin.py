"""Tests of L{smartgo.testing.pytestplugin}: pytest runs small files of a user in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from smartgo.testing import EmbeddedBroker
from tests.test_layers import ROOT

USER = '''
import subprocess, sys

SEND = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from smartgo import Client, Message, Producer, RealEnvironment

async def work(reactor, registry, topic):
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "senders")
    await producer.start()
    await producer.send(Message(topic=topic, body=b"one"))
    await client.stop()

react(lambda reactor, *words: Deferred.fromCoroutine(work(reactor, *words)), sys.argv[1:])
"""

def send(broker, topic):
    subprocess.run([sys.executable, "-c", SEND, broker.registry, topic], check=True)

def test_first(smartgo_broker, smartgo_topic):
    send(smartgo_broker, smartgo_topic)
    (message,) = smartgo_broker.messages(smartgo_topic, at_least=1)
    assert message.body == b"one"
    smartgo_broker.faults.refuse(1, count=None)
    print("REGISTRY", smartgo_broker.registry)

def test_second(smartgo_broker, smartgo_topic, smartgo_group):
    send(smartgo_broker, smartgo_topic)  # the fault has ended with its test
    assert len(smartgo_broker.messages(smartgo_topic)) == 1
    assert smartgo_topic.startswith("test_second-") and smartgo_group.startswith("test_second-")
    print("REGISTRY", smartgo_broker.registry)
'''


CLIENTS = """
import asyncio
from smartgo.aio import Message as AioMessage, Producer as AioProducer
from smartgo.sync import Message, Producer

def test_blocking(smartgo_broker, smartgo_topic, smartgo_client):
    with Producer(smartgo_client, "producers") as producer:
        producer.send(Message(topic=smartgo_topic, body=b"one"))
    assert [one.body for one in smartgo_broker.messages(smartgo_topic)] == [b"one"]

def test_asyncio(smartgo_broker, smartgo_topic, smartgo_aio_client):
    async def work():
        async with smartgo_aio_client(instance="tests") as client, AioProducer(client, "producers") as producer:
            await producer.send(AioMessage(topic=smartgo_topic, body=b"two"))

    asyncio.run(work())
    assert [one.body for one in smartgo_broker.messages(smartgo_topic)] == [b"two"]
"""


class PluginTests(SynchronousTestCase):
    """The plugin as pytest loads it, by its entry point where smartgo is installed."""

    def run_pytest(self, *options: str, **files: str) -> tuple[int, str]:
        """Run pytest on these files in a new directory; return its status and its output."""
        folder = self.mktemp()
        os.mkdir(folder)
        for name, text in files.items():
            path = os.path.join(folder, "pytest.ini" if name == "pytest_ini" else f"{name}.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
        environment |= {"PYTHONPATH": ROOT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-m", "pytest", "-rA", "-p", "smartgo.testing.pytestplugin", *options]
        done = subprocess.run(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        return done.returncode, done.stdout

    def test_broker(self) -> None:
        """All tests of a session have one broker, each a topic of its own; faults end with their test."""
        status, said = self.run_pytest(test_orders=USER)
        self.assertEqual(status, 0, said)
        self.assertIn("2 passed", said)
        self.assertEqual(len(set(re.findall("REGISTRY (.+)", said))), 1)

    def test_clients(self) -> None:
        """Fixtures give a blocking client that is started, and one for asyncio that the test starts."""
        status, said = self.run_pytest(test_clients=CLIENTS)
        self.assertEqual(status, 0, said)
        self.assertIn("2 passed", said)

    def test_light(self) -> None:
        """Tests that use no fixture load neither Twisted nor anything else of smartgo, and start nothing."""
        text = """
import sys

def test_loaded():
    loaded = {name for name in sys.modules if name.split(".")[0] in ("smartgo", "twisted", "msgspec")}
    assert loaded == {"smartgo", "smartgo.testing", "smartgo.testing.pytestplugin"}
"""
        status, said = self.run_pytest(test_light=text)
        self.assertEqual(status, 0, said)

    def test_settings(self) -> None:
        """Settings of the broker come from the configuration file of pytest; one without a value is named."""
        text = """
def test_settings(smartgo_settings):
    assert smartgo_settings == {"autoCreateTopicEnable": "false", "brokerClusterName": "Mine"}
"""
        lines = "[pytest]\nsmartgo_settings =\n    autoCreateTopicEnable=false\n    brokerClusterName = Mine\n"
        status, said = self.run_pytest(test_settings=text, pytest_ini=lines)
        self.assertEqual(status, 0, said)
        status, said = self.run_pytest(test_settings=text, pytest_ini="[pytest]\nsmartgo_settings = yes\n")
        self.assertNotEqual(status, 0)
        self.assertIn("smartgo_settings: yes: write NAME=VALUE", said)

    def test_running_cluster(self) -> None:
        """With --smartgo-registry tests use that cluster; those that need a broker for tests are skipped."""
        text = """
import pytest

def test_topic(smartgo_broker, smartgo_topic):
    assert smartgo_broker.registry == "REGISTRY"
    with pytest.raises(AttributeError):
        smartgo_broker.nonsense

def test_time(smartgo_broker):
    smartgo_broker.advance(1)
    assert False
"""
        with EmbeddedBroker() as broker:
            status, said = self.run_pytest(
                "--smartgo-registry", broker.registry, test_it=text.replace("REGISTRY", broker.registry)
            )
        self.assertEqual(status, 0, said)
        self.assertIn("1 passed, 1 skipped", said)
        self.assertIn("advance needs a broker for tests", said)
