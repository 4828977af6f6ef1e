"""
The pytest plugin: fixtures with a broker, its topics and clients (C{docs/testing.rst}).

pytest loads this module wherever smartgo is installed, so it imports nothing of smartgo until a fixture is used. The
broker starts with the first test that uses it, once a session (a worker of pytest-xdist has a session of its own), and
ends with the session. Faults end with the test that asked for them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    import smartgo.aio
    import smartgo.sync
    from smartgo.testing.embeddedbroker import EmbeddedBroker
    from smartgo.testing.runningcluster import RunningCluster

_STARTED: Final = pytest.StashKey["EmbeddedBroker"]()
"""The broker of a session, once a test has used it."""
_NAME: Final = 60  # characters of a test's name in that of its topic


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("smartgo")
    group.addoption(
        "--smartgo-registry",
        metavar="HOST:PORT",
        help="use the cluster of this registry instead of starting a broker; tests that need what only a broker "
        "for tests can do (its store, its clock, its faults) are skipped",
    )
    parser.addini("smartgo_settings", "settings of the broker for tests, NAME=VALUE, one a line", "linelist", [])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the faults that a test asked for."""
    broker = item.config.stash.get(_STARTED, None)
    if broker is not None and broker.has_faults:
        broker.faults.clear()


@pytest.fixture(scope="session")
def smartgo_settings(pytestconfig: pytest.Config) -> dict[str, str]:
    """Settings of the broker by name: those of the option C{smartgo_settings}; override it to compute them."""
    found = {}
    for text in pytestconfig.getini("smartgo_settings"):
        name, sign, value = text.partition("=")
        if not sign:
            raise pytest.UsageError(f"smartgo_settings: {text}: write NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


@pytest.fixture(scope="session")
def smartgo_broker(
    pytestconfig: pytest.Config, smartgo_settings: dict[str, str]
) -> Iterator[EmbeddedBroker | RunningCluster]:
    """A broker for all tests of the session, with C{registry}, C{create_topic}, C{messages}, C{advance}, C{faults}."""
    registry = pytestconfig.getoption("smartgo_registry")
    if registry:
        from smartgo.testing.runningcluster import RunningCluster

        yield RunningCluster(registry, pytest.skip)
        return
    from smartgo.testing.embeddedbroker import EmbeddedBroker

    with EmbeddedBroker(smartgo_settings) as broker:
        pytestconfig.stash[_STARTED] = broker
        yield broker
        del pytestconfig.stash[_STARTED]


def _name_for(request: pytest.FixtureRequest) -> str:
    name = re.sub("[^0-9A-Za-z_-]+", "-", request.node.name).strip("-")
    return f"{name[:_NAME]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def smartgo_topic(smartgo_broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """The name of a topic that was created for this test alone, with four queues."""
    name = _name_for(request)
    smartgo_broker.create_topic(name)
    return name


@pytest.fixture
def smartgo_group(request: pytest.FixtureRequest) -> str:
    """The name of a group that no other test uses."""
    return _name_for(request)


@pytest.fixture
def smartgo_client(smartgo_broker: EmbeddedBroker) -> Iterator[smartgo.sync.Client]:
    """A blocking client (L{smartgo.sync}) that is started; it ends with the test, and what was made with it."""
    from smartgo.sync import Client

    with Client(smartgo_broker.registry) as client:
        yield client


@pytest.fixture
def smartgo_aio_client(smartgo_broker: EmbeddedBroker) -> Callable[..., smartgo.aio.Client]:
    """A function that returns a client for asyncio (L{smartgo.aio}): C{async with smartgo_aio_client() as client}."""
    from smartgo.aio import Client

    def make(**options: Any) -> smartgo.aio.Client:
        return Client(smartgo_broker.registry, **options)

    return make
