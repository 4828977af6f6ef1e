"""Addresses of registries as people write them."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema.registryaddresses import registry_addresses

__doctests__ = ["smartgo.schema.registryaddresses"]


class AddressTests(SynchronousTestCase):
    def test_accepted(self) -> None:
        """Ports and schemes may be missing; a list and a text with semicolons or commas mean the same."""
        cases: list[tuple[str | Sequence[str], tuple[str, ...]]] = [
            ("localhost", ("localhost:9876",)),
            ("localhost:1", ("localhost:1",)),
            ("10.0.0.1", ("10.0.0.1:9876",)),
            ("::1", ("[::1]:9876",)),
            ("[::1]", ("[::1]:9876",)),
            ("[::1]:80", ("[::1]:80",)),
            ("rocketmq://a:1/", ("a:1",)),
            ("HTTP://a", ("a:9876",)),
            (" tcp://a:2 ", ("a:2",)),
            ("a:1;b:2", ("a:1", "b:2")),
            ("a, b;;", ("a:9876", "b:9876")),
            (["a:1", "tcp://b"], ("a:1", "b:9876")),
        ]
        for given, found in cases:
            self.assertEqual(registry_addresses(given), found, given)

    def test_refused(self) -> None:
        """What is no address is refused, with the text and what is wrong with it."""
        cases: list[tuple[str | Sequence[str], str]] = [
            ("", "no registry"),
            (" ; ", "no registry"),
            ([], "no registry"),
            ("https://a:1", "unknown scheme"),
            ("ftp://a", "unknown scheme"),
            ("http://a/path", "path or a user"),
            ("user@a:1", "path or a user"),
            ("a:1?x=2", "path or a user"),
            ("a:port", "registry: "),
            ("a:99999", "registry: "),
            ([b"a:1"], "not b'a:1'"),  # type: ignore[list-item]
            ([9876], "not 9876"),  # type: ignore[list-item]
        ]
        for given, words in cases:
            error = self.assertRaises(SettingError, registry_addresses, given)
            self.assertIn(words, str(error), given)
