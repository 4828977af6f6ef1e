"""The public API: what C{from smartgo import ...} gives, what that loads, and what the examples import."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

import smartgo
from tests.test_layers import ROOT, imports, sources

FRAMEWORK = {
    "echo_gateway.py": ("smartgo.net", "smartgo.env", "smartgo.errors"),
    "remoting_board.py": ("smartgo.remoting", "smartgo.net", "smartgo.env", "smartgo.errors", "smartgo.schema"),
    "spark_topic_stream.py": ("smartgo.spark",),
    "simulated_gateway.py": (),  # the simulator's packages alone
    "test_orders_service.py": (),  # the fixtures of the plugin alone, so for the others
    "test_shop_django.py": (),
    "test_worker.py": (),
}
"""Examples of what is no part of the public API (the framework below the broker, Spark), and the packages they need."""


def loaded_by(code: str) -> set[str]:
    """Return the names of the modules that a fresh Python has loaded after some code."""
    code += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


class NameTests(SynchronousTestCase):
    def test_resolve(self) -> None:
        """Every public name resolves to what bears this name, and all are listed by C{dir}."""
        self.assertLessEqual(
            {"Admin", "Client", "Message", "Producer", "PullConsumer", "PushConsumer"}, set(dir(smartgo))
        )
        for name in smartgo.__all__:
            self.assertIn(name, dir(smartgo))
            value = getattr(smartgo, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                self.assertEqual(value.__name__, name)

    def test_types(self) -> None:
        """What type checkers read is what is loaded: the same names, from the same modules."""
        with open(os.path.join(ROOT, "smartgo", "__init__.py"), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        checked = {
            alias.asname: node.module
            for block in tree.body
            if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self.assertEqual(checked, smartgo._HOMES)
        self.assertEqual(sorted(checked), list(smartgo.__all__))

    def test_missing(self) -> None:
        """Any other name is missing as from every module."""
        error = self.assertRaises(AttributeError, getattr, smartgo, "Clinet")
        self.assertEqual(str(error), "module 'smartgo' has no attribute 'Clinet'")
        self.assertRaises(ImportError, exec, "from smartgo import Clinet")

    def test_star(self) -> None:
        """A star import brings the public names."""
        space: dict[str, object] = {}
        exec("from smartgo import *", space)
        self.assertEqual(set(space) - {"__builtins__"}, set(smartgo.__all__))


class LoadingTests(SynchronousTestCase):
    def test_light(self) -> None:
        """Neither C{import smartgo} nor an error loads Twisted, the client or anything else of smartgo."""
        loaded = loaded_by("import smartgo; from smartgo import CallFailed")
        ours = {name for name in loaded if name.split(".")[0] in ("smartgo", "twisted", "msgspec")}
        self.assertEqual(ours, {"smartgo", "smartgo.errors"})

    def test_reactor(self) -> None:
        """All public names together install no reactor: the program chooses it."""
        self.assertNotIn("twisted.internet.reactor", loaded_by("from smartgo import *"))

    def test_twistd(self) -> None:
        """A list of twistd's commands loads no client."""
        loaded = loaded_by(
            "from twisted.application.service import IServiceMaker\n"
            "from twisted.plugin import getPlugins\n"
            "assert 'smartgo-broker' in [one.tapname for one in getPlugins(IServiceMaker)]"
        )
        self.assertEqual([name for name in loaded if name.startswith("smartgo.")], [])


class ExampleTests(SynchronousTestCase):
    def test_imports(self) -> None:
        """The examples need one import line of smartgo; those of the framework name the packages they build on."""
        seen = set()
        for path in sources(os.path.join("docs", "examples")):
            name = os.path.basename(path)
            ours = {(line, one.rpartition(".")[0]) for line, one in imports(path) if one.split(".")[0] == "smartgo"}
            if name in FRAMEWORK:
                wrong = [one for _, one in ours if not one.startswith(FRAMEWORK[name])]
                self.assertEqual(wrong, [], name)
            else:
                self.assertIn({one for _, one in ours}, [{"smartgo"}, {"smartgo.aio"}, {"smartgo.sync"}], name)
                self.assertEqual(len({line for line, _ in ours}), 1, name)
            seen.add(name)
        self.assertLessEqual({"client.py", "hello.py", *FRAMEWORK}, seen)
