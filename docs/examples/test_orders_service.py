"""The tests of C{orders_service.py}: C{pip install pytest httpx2}, then C{pytest}. The fixtures come with smartgo."""

import time

import pytest
from fastapi.testclient import TestClient
from orders_service import make_app


@pytest.fixture
def service(smartgo_broker, smartgo_topic, smartgo_group):
    """The service, with a topic and a group of this test alone."""
    with TestClient(make_app(smartgo_broker.registry, smartgo_topic, smartgo_group)) as client:
        yield client


def total_becomes(service, customer, cents, seconds=10):
    """Wait until the service has consumed so much."""
    deadline = time.monotonic() + seconds
    while service.get(f"/totals/{customer}").json()["cents"] != cents:
        assert time.monotonic() < deadline, service.get(f"/totals/{customer}").json()
        time.sleep(0.02)


def test_order_is_stored(service, smartgo_broker, smartgo_topic):
    answer = service.post("/orders", json={"customer": "ada", "cents": 1250})
    assert answer.status_code == 202
    (message,) = smartgo_broker.messages(smartgo_topic)
    assert (message.message_id, message.keys) == (answer.json()["id"], ["ada"])


def test_totals(service):
    for cents in (1000, 250):
        service.post("/orders", json={"customer": "ada", "cents": cents})
    total_becomes(service, "ada", 1250)


def test_message_that_comes_twice_counts_once(service, smartgo_broker, smartgo_topic):
    smartgo_broker.faults.duplicate("send", topic=smartgo_topic)
    service.post("/orders", json={"customer": "ada", "cents": 1000})
    assert len(smartgo_broker.messages(smartgo_topic)) == 2
    service.post("/orders", json={"customer": "ada", "cents": 1})
    total_becomes(service, "ada", 1001)


def test_broker_that_takes_no_messages(service, smartgo_broker, smartgo_topic):
    smartgo_broker.faults.refuse(1, "send", topic=smartgo_topic, count=None)
    assert service.post("/orders", json={"customer": "ada", "cents": 1}).status_code == 503
    assert smartgo_broker.messages(smartgo_topic) == []


def test_broker_that_is_down_for_a_while(service, smartgo_broker):
    with smartgo_broker.down():
        assert service.post("/orders", json={"customer": "ada", "cents": 1}).status_code == 503
    assert service.post("/orders", json={"customer": "ada", "cents": 1000}).status_code == 202
    total_becomes(service, "ada", 1000)
