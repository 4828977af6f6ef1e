"""Tests of L{smartgo.auth.yamltext}."""

from __future__ import annotations

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.yamltext import NotYaml, dump_yaml, load_yaml


class YamlTextTests(SynchronousTestCase):
    """Texts to values and back."""

    def test_both_ways(self) -> None:
        """What is written is read again, in its order; an empty text is no document."""
        content = {"b": [1, "é"], "a": None}
        self.assertEqual(dump_yaml(content), "b:\n- 1\n- é\na: null\n")
        self.assertEqual(load_yaml(dump_yaml(content).encode()), content)
        self.assertIsNone(load_yaml("# nothing"))

    def test_no_yaml(self) -> None:
        """What is no YAML is told with its place where that is known, and so is a value that cannot be."""
        for text, place in (("a: 1\nb: [", " at line 2, column 5"), ("a: 2020-99-99", ""), ("\x00", "")):
            self.assertEqual(str(self.assertRaises(NotYaml, load_yaml, text)), place, text)

    def test_loaded_late(self) -> None:
        """A broker without access control starts without the library."""
        program = "import sys, smartgo.node.broker, smartgo.node.registry; print('yaml' in sys.modules)"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(found.stdout, "False\n")
