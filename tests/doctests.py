"""The examples in docstrings as tests of trial, so that C{trial -j} can run them."""

from __future__ import annotations

import doctest
import importlib

from twisted.trial.unittest import SynchronousTestCase


class DocTestCase(SynchronousTestCase):
    """
    Runs the examples of one module, a test method for each docstring that has some.

    Made by C{class ExampleTests(DocTestCase, module="smartgo.schema.delay")}.
    """

    def __init_subclass__(cls, module: str) -> None:
        """Give the class its methods; C{test_Unit_pack} runs the examples of C{Unit.pack}."""
        found = [one for one in doctest.DocTestFinder().find(importlib.import_module(module)) if one.examples]
        if not found:
            raise ValueError(f"no docstring of {module} has an example")
        for one in found:
            name = one.name.removeprefix(module).lstrip(".").replace(".", "_") or "module"
            setattr(cls, f"test_{name}", _method(one))


def _method(examples: doctest.DocTest) -> object:
    def run(self: SynchronousTestCase) -> None:
        words: list[str] = []
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(examples, out=words.append, clear_globs=False)
        self.assertEqual(runner.failures, 0, "".join(words))

    run.__doc__ = f"The examples of {examples.name} give what they show."
    return run
