"""
Brokers for tests: a registry and a broker on free ports, with a temporary store, a clock to move and faults to ask for.

    >>> from smartgo.testing import EmbeddedBroker
    >>> with EmbeddedBroker() as broker:  # doctest: +SKIP
    ...     broker.create_topic("Orders")
    ...     run_my_program(broker.registry)
    ...     assert [one.body for one in broker.messages("Orders")] == [b"order 1"]

L{EmbeddedBroker<smartgo.testing.embeddedbroker.EmbeddedBroker>} is a process, for blocking and asyncio programs;
L{InProcessBroker<smartgo.testing.inprocess.InProcessBroker>} runs on a reactor, and
L{BrokerMixin<smartgo.testing.trialcase.BrokerMixin>} gives one to a test case of trial. C{python -m smartgo.testing}
is the process, for tests in other languages. The names are loaded when they are asked for. See C{docs/testing.rst}.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from smartgo.testing.asyncbroker import AsyncEmbeddedBroker as AsyncEmbeddedBroker
    from smartgo.testing.embeddedbroker import EmbeddedBroker as EmbeddedBroker
    from smartgo.testing.faultrules import FaultButtons as FaultButtons
    from smartgo.testing.inprocess import InProcessBroker as InProcessBroker
    from smartgo.testing.trialcase import BrokerMixin as BrokerMixin

    __all__: list[str]

_HOMES: Final = {
    "AsyncEmbeddedBroker": "smartgo.testing.asyncbroker",
    "BrokerMixin": "smartgo.testing.trialcase",
    "EmbeddedBroker": "smartgo.testing.embeddedbroker",
    "FaultButtons": "smartgo.testing.faultrules",
    "InProcessBroker": "smartgo.testing.inprocess",
}

if not TYPE_CHECKING:  # with __getattr__ a type checker would accept any name
    __all__ = sorted(_HOMES)  # noqa: PLE0605 - sorted gives a list

    def __getattr__(name):
        """Load a public name from the module that defines it."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__():
        """List the public names, loaded or not, beside what is here already."""
        return sorted({*globals(), *_HOMES})
