"""The version of the package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from twisted.trial.unittest import SynchronousTestCase

from smartgo.env import product
from smartgo.env.product import product_version


class ProductTests(SynchronousTestCase):
    def test_version(self) -> None:
        """The version is that of the installed package; a checkout that is not installed has none."""
        self.assertEqual(product_version(), version("smartgo"))

        def missing(name: str) -> str:
            raise PackageNotFoundError(name)

        product_version.cache_clear()
        self.addCleanup(product_version.cache_clear)  # after the patch is taken back
        self.patch(product, "installed", missing)
        self.assertEqual(product_version(), "unknown")
