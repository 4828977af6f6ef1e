"""The tests of C{worker.py}: retries of minutes in a second."""

import queue

import pytest
from worker import Tasks


@pytest.fixture
def tasks(smartgo_broker, smartgo_topic, smartgo_group):
    """Tasks with a topic and a group of this test alone; dead letters after two retries."""
    with Tasks(smartgo_broker.registry, smartgo_topic, smartgo_group, retries=2) as tasks:
        yield tasks


def test_task(tasks):
    called = queue.Queue()

    @tasks.task
    def add(one, other):
        called.put(one + other)

    with tasks.work():
        tasks.later("add", 1, 2)
        assert called.get(timeout=10) == 3


def test_delay(tasks, smartgo_broker):
    called = queue.Queue()

    @tasks.task
    def remind(what):
        called.put(what)

    with tasks.work():
        tasks.later("remind", "pay", delay=86400.0)
        assert called.empty()
        smartgo_broker.advance(86400)
        assert called.get(timeout=10) == "pay"


def test_failing_task_becomes_a_dead_letter(tasks, smartgo_broker, smartgo_group):
    called = queue.Queue()

    @tasks.task
    def fail():
        called.put("called")
        raise RuntimeError("the task failed")

    before = len(smartgo_broker.messages("SCHEDULE_TOPIC_XXXX"))  # retries of the tests before this one
    with tasks.work():
        message_id = tasks.later("fail")
        called.get(timeout=10)
        for number, seconds in enumerate((10, 30), 1):
            smartgo_broker.messages("SCHEDULE_TOPIC_XXXX", at_least=before + number)  # it was given back
            smartgo_broker.advance(seconds)
            called.get(timeout=10)
        (dead,) = smartgo_broker.messages(f"%DLQ%{smartgo_group}", at_least=1)
    assert dead.message_id == message_id
    assert called.empty()
