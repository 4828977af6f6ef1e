"""Tests for L{benchmarks.checkouts}."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.checkouts import ROOT, Checkout, checkout_of
from benchmarks.errors import BenchmarkError
from benchmarks.targets import Bench, Ours


class CheckoutTests(SynchronousTestCase):
    """Checkouts of smartgo to be measured."""

    def checkout(self, core: str | None = None) -> Path:
        """Make the folder of a checkout whose broker says C{core} of its core; an old one has no such module."""
        root = Path(self.mktemp()).resolve() / "older"
        (root / "smartgo").mkdir(parents=True)
        (root / "smartgo" / "__init__.py").touch()
        if core is not None:
            (root / "smartgo" / "core.py").write_text(f"import os\nCORE = os.environ.get('SMARTGO_PURE') or {core!r}\n")
        return root

    def test_core(self) -> None:
        """The interpreter is asked what the checkout would run, its own smartgo and no other."""
        self.patch(os, "environ", {name: value for name, value in os.environ.items() if name != "SMARTGO_PURE"})
        root = self.checkout("compiled")
        self.assertEqual(Checkout(root).core(), "compiled")
        self.assertEqual(Checkout(root, pure=True).core(), "1")
        self.assertEqual(Checkout(self.checkout()).core(), "none")

    def test_words(self) -> None:
        """A path makes a checkout, named as its folder or as it is told."""
        root = self.checkout()
        self.assertEqual(checkout_of(f"checkout={root}"), Checkout(root, name="older"))
        self.assertEqual(checkout_of(f"checkout={root},name=base"), Checkout(root, name="base"))

    def test_not_understood(self) -> None:
        """Words of another form are refused."""
        root = self.checkout()
        for words in ("checkout=", f"checkout={root},base", f"checkout={root},name=", f"checkout={root},name=a/b"):
            self.assertRaises(ValueError, checkout_of, words)

    def test_no_checkout(self) -> None:
        """A folder without smartgo is refused."""
        error = self.assertRaises(BenchmarkError, checkout_of, f"checkout={self.mktemp()}")
        self.assertIn("no checkout of smartgo", str(error))


class TargetTests(SynchronousTestCase):
    """Checkouts become brokers."""

    def test_pure(self) -> None:
        """Both of this checkout run this checkout, one of them without its core."""
        bench = Bench(Path("work"), 24000)
        pure = bench.target("pure")
        assert isinstance(pure, Ours)
        self.assertEqual(pure.environment(), {"PYTHONPATH": str(ROOT), "SMARTGO_PURE": "1"})
        self.assertEqual(pure.another().environment(), pure.environment())
        self.assertEqual(bench.ours().environment(), {"PYTHONPATH": str(ROOT)})

    def test_core(self) -> None:
        """The compiled core is refused where it is not compiled, with what to do."""
        bench = Bench(Path("work"), 24000)
        self.patch(Checkout, "core", lambda checkout: "Python, without the compiled core: it was not compiled")
        error = self.assertRaises(BenchmarkError, bench.target, "core")
        self.assertIn("it was not compiled", str(error))
        self.assertIn("build_ext", str(error))
        self.patch(Checkout, "core", lambda checkout: "compiled")
        self.assertEqual(bench.target("core").name, "core")

    def test_other(self) -> None:
        """Another checkout is run with this interpreter, its sources before all others."""
        root = Path(self.mktemp()).resolve()
        (root / "smartgo").mkdir(parents=True)
        (root / "smartgo" / "__init__.py").touch()
        made = Bench(Path("work"), 24000).target(f"checkout={root},name=base")
        assert isinstance(made, Ours)
        self.assertEqual((made.name, made.environment()["PYTHONPATH"]), ("base", str(root)))
