"""The versions of L{requirements} agree with what C{setup.py} asks for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
BUILDING = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]


def asked_for(keyword: str) -> list[Requirement]:
    """Return what C{setup.py} gives to C{setup(keyword=[...])}."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text("utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == keyword:
            return [Requirement(each) for each in ast.literal_eval(node.value)]
    raise LookupError(keyword)


def pins(name: str) -> dict[str, str]:
    """Return package name -> version of one file of C{requirements/}; lines for other systems are left out."""
    found: dict[str, str] = {}
    for line in (ROOT / "requirements" / name).read_text("utf-8").splitlines():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate():
            (specifier,) = requirement.specifier
            found[canonicalize_name(requirement.name)] = specifier.version
    return found


class VersionTests(SynchronousTestCase):
    """What CI installs, and what the lower bounds promise."""

    def test_locked(self) -> None:
        """Each package that smartgo needs, and that building needs, is locked to a version that its bounds allow."""
        locked = pins("locked.txt")
        for requirement in [*asked_for("install_requires"), *map(Requirement, BUILDING)]:
            version = locked[canonicalize_name(requirement.name)]
            self.assertTrue(requirement.specifier.contains(version), f"{requirement} and {version}")

    def test_sparks(self) -> None:
        """The older versions of Spark are tried with the same versions of everything else."""
        locked = pins("locked.txt")
        for name, version in (("spark41.txt", "4.1."), ("spark42.txt", "4.2.")):
            found = pins(name)
            self.assertTrue(found["pyspark"].startswith(version))
            self.assertEqual({**found, "pyspark": locked["pyspark"]}, locked)

    def test_lowest(self) -> None:
        """The lowest versions are the lower bounds, of all packages that smartgo names and of no other."""
        lowest = pins("lowest.txt")
        asked = {canonicalize_name(each.name): each for each in asked_for("install_requires")}
        self.assertEqual(set(lowest), set(asked))
        for name, requirement in asked.items():
            (bound,) = [each.version for each in requirement.specifier if each.operator == ">="]
            self.assertTrue(requirement.specifier.contains(lowest[name]))
            self.assertTrue(lowest[name].startswith(bound), f"{requirement}: {lowest[name]} is not its lower bound")

    def test_upper_bounds(self) -> None:
        """Packages whose newer versions broke us, or change their interface between versions, have an upper bound."""
        bounded = {
            each.name for each in asked_for("install_requires") if any(one.operator == "<" for one in each.specifier)
        }
        self.assertEqual(
            bounded & {"construct", "klein", "msgspec", "twisted"}, {"construct", "klein", "msgspec", "twisted"}
        )


MODULES = {
    "opentelemetry-api": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "pyyaml": "yaml",
    "service-identity": "service_identity",
}
"""The module of a package, where its name differs."""
NOT_IMPORTED: set[str] = set()
"""Packages that stay for what is to come: docs/decisions/dependencies.rst says why."""
BROUGHT = {"OpenSSL", "cryptography", "pytest", "werkzeug"}
"""Modules of packages that others bring: twisted[tls] and klein; and pytest, which loads the module that imports it."""


def imported() -> set[str]:
    """Return the top modules that smartgo and its extensions import, those of Python and their own left out."""
    found: set[str] = set()
    for top in ("smartgo", "plugins"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    found.update(alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names - {"smartgo"}


class ImportTests(SynchronousTestCase):
    """What setup.py names is used, and what is used is named."""

    def test_used(self) -> None:
        """Every package that smartgo needs is imported by some module, those that wait for later work apart."""
        named = {each.name for each in asked_for("install_requires")}
        self.assertLessEqual(NOT_IMPORTED, named)
        used = imported()
        modules = {MODULES.get(name, name.split(".")[0]): name for name in named}
        self.assertEqual({name for module, name in modules.items() if module not in used}, NOT_IMPORTED)

    def test_named(self) -> None:
        """Every module that is imported comes with a package that smartgo, or one of its extras, names."""
        named = {each.name for each in asked_for("install_requires")} | {
            "numpy",
            "opentelemetry-api",
            "plotly",
            "pyarrow",
            "pyspark",
        }
        self.assertEqual(imported() - {MODULES.get(name, name.split(".")[0]) for name in named}, BROUGHT)

    def test_documented(self) -> None:
        """The table of docs/decisions/dependencies.rst has the packages of setup.py."""
        page = (ROOT / "docs" / "decisions" / "dependencies.rst").read_text("utf-8")
        rows = re.findall(r"^    ``([\w.-]+)``  +\S", page, re.MULTILINE)
        self.assertEqual(sorted(rows), sorted(each.name for each in asked_for("install_requires")))
