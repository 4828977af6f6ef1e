"""The tests of C{shop_django.py}."""

import io

import pytest
from django.core.management import call_command
from django.test import Client
from shop_django import Command, settings


@pytest.fixture
def shop(smartgo_broker, smartgo_topic):
    """Django's test client; orders go to a topic of this test alone."""
    settings.SMARTGO_REGISTRY, settings.SMARTGO_TOPIC = smartgo_broker.registry, smartgo_topic
    return Client()


def test_order(shop, smartgo_broker, smartgo_topic):
    answer = shop.post("/orders", {"customer": "ada", "cents": 1250}, content_type="application/json")
    assert answer.status_code == 202
    (message,) = smartgo_broker.messages(smartgo_topic)
    assert message.message_id == answer.json()["id"]


def test_no_broker_takes_it(shop, smartgo_broker):
    smartgo_broker.faults.refuse(1, "send", count=None)
    answer = shop.post("/orders", {"customer": "ada", "cents": 1}, content_type="application/json")
    assert answer.status_code == 503


def test_command(shop):
    for cents in (100, 200):
        shop.post("/orders", {"customer": "ada", "cents": cents}, content_type="application/json")
    printed = io.StringIO()
    call_command(Command(), count=2, stdout=printed)
    assert sorted(printed.getvalue().splitlines()) == ["ada ordered for 100 cents", "ada ordered for 200 cents"]
