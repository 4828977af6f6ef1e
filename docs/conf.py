"""
The site of the documentation: C{tox -e docs} builds it, and takes every warning for an error.

C{docs/links.py} checks the links of the built site, in place of Sphinx's C{linkcheck}, which asks other hosts and
leaves out the anchors within the site.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils.nodes import Element
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.pycode import ModuleAnalyzer

import smartgo

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from docs.epytext import to_rst  # noqa: E402 - found by the path of the line above

project = "smartgo"
author = "The smartgo developers"
extensions = ["sphinx.ext.autodoc"]
exclude_patterns = ["newsfragments/*", "examples/*", "notebooks/*", "deploy/*", "grafana/*"]
html_theme = "alabaster"
html_theme_options = {"description": "A message broker on Twisted, compatible with RocketMQ", "page_width": "1100px"}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}
html_copy_source = False
html_show_copyright = False

toc_object_entries = False
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
nitpicky = True
# What is not public has no page here: pydoctor documents it. References to public names are checked.
nitpick_ignore_regex = [("py:.*", r"(?!smartgo\.\w+(\.\w+)?$).*")]

_HOMES: dict[str, str] = smartgo._HOMES
_BY_HOME = {f"{module}.{name}": f"smartgo.{name}" for name, module in _HOMES.items()}
"""Where a public name is defined -> as what the site documents it."""


def setup(app: Sphinx) -> None:
    """Write the changelog, and let Sphinx read our docstrings."""
    write_changelog()
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("missing-reference", find_public)


def write_changelog() -> None:
    """Write C{changelog.rst}: what the news fragments say about the next version."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--date", "not released"]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ExtensionError(f"towncrier cannot read the news fragments: {done.stderr}")
    news = done.stdout
    page = f"Changelog\n=========\n\n{news.strip()}\n"
    path = DOCS / "changelog.rst"
    if not path.exists() or path.read_text("utf-8") != page:
        path.write_text(page, "utf-8")


def process_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write interfaces of zope and numbers with bounds as a reader knows them, where a signature has them."""

    def plain(text: str | None) -> str | None:
        if text is None:
            return None
        text = re.sub(r"<InterfaceClass ([\w.]+)>", r"\1", text)
        text = re.sub(r"[~\w.]*Annotated\[(int|float), [~]?[\w.]+\([^()]*\)\]", r"\1", text)
        return text.replace("int | float", "int")  # Int32 admits the floats of JSON that are whole numbers

    return plain(signature), plain(returns)


def process_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring, which is epytext, as reStructuredText."""
    if what == "data":  # the comment below the assignment, in the module that defines the name
        home, _, last = next(key for key, public in _BY_HOME.items() if public == name).rpartition(".")
        lines[:] = ModuleAnalyzer.for_module(home).find_attr_docs()[("", last)]
    lines[:] = to_rst(lines, lambda target: resolve(target, name, obj))


def resolve(target: str, name: str, obj: Any) -> str | None:
    """
    Return as what the site documents a name that a docstring refers to.

    @param name: the full name of what the docstring belongs to; C{obj} is the object.
    """
    owner = name if inspect.isclass(obj) else name.rpartition(".")[0]
    cls = _found(owner)
    if _has_entry(cls, target):
        return f"{owner}.{target}"
    scope = inspect.getmodule(cls if inspect.isclass(cls) else obj)
    first, _, rest = target.partition(".")
    value = getattr(scope, first, None)
    if value is not None:
        full = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
        target = full + (f".{rest}" if rest else "")
    if target in _BY_HOME:
        return _BY_HOME[target]
    parent, _, member = target.rpartition(".")
    return f"{_BY_HOME[parent]}.{member}" if parent in _BY_HOME and _has_entry(_found(parent), member) else None


def _has_entry(cls: Any, member: str) -> bool:
    """Tell whether a member of a class has an entry of its own: methods and properties have, fields are listed."""
    value = getattr(cls, member, None) if inspect.isclass(cls) and not member.startswith("_") else None
    return (inspect.isroutine(value) or isinstance(value, property)) and bool(inspect.getdoc(value))


def _found(name: str) -> Any:
    """Return what a full name refers to; C{None} where that is no part of a module."""
    module, _, last = name.rpartition(".")
    try:
        return getattr(import_module(module), last, None)
    except ImportError:
        return None


def find_public(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: Element) -> Element | None:
    """Let a reference to where a public name is defined, as in a signature, lead to the public name."""
    public = _BY_HOME.get(node.get("reftarget", ""))
    if node.get("refdomain") != "py" or public is None:
        return None
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, content)
