"""Several addresses of one broker."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.advertised import LIMIT, Advertised, ConnectionEnds


class AdvertisedTests(SynchronousTestCase):
    def best(self, text: str, ip: str, at: str = "10.0.0.5", port: int = 9876) -> str | None:
        """Return the address that an asker is told."""
        return Advertised.parse(text).best(ConnectionEnds(ip, at, port))

    def test_longest_prefix(self) -> None:
        """Of networks that fit the longest prefix counts, in whatever order they are; none fits: nothing."""
        for text in (
            "0.0.0.0/0=far:1; 10.0.0.0/8=near:2; 10.1.2.3=me:3",
            "10.1.2.3=me:3;10.0.0.0/8=near:2;0.0.0.0/0=far:1",
        ):
            found = [self.best(text, ip) for ip in ("192.0.2.1", "10.9.9.9", "10.1.2.3", "2001:db8::1")]
            self.assertEqual(found, ["far:1", "near:2", "me:3", None])

    def test_v6(self) -> None:
        """IPv6 networks and addresses in brackets are as good."""
        text = "2001:db8::/32=[2001:db8::5]:10911"
        self.assertEqual(self.best(text, "2001:db8:1::9"), "[2001:db8::5]:10911")
        self.assertIsNone(self.best(text, "2001:db9::1"))

    def test_listener(self) -> None:
        """Where the registry was asked counts more than where from; address and port more than one of both."""
        text = "@10.0.0.5=ip:1;@:9877=port:2;@10.0.0.5:9877=both:3;10.1.2.3=from:4"
        self.assertEqual(self.best(text, "10.1.2.3"), "ip:1")
        self.assertEqual(self.best(text, "10.1.2.3", port=9877), "both:3")
        self.assertEqual(self.best(text, "10.1.2.3", "10.0.0.6", 9877), "port:2")
        self.assertEqual(self.best(text, "10.1.2.3", "10.0.0.6"), "from:4")
        self.assertEqual(self.best("@[::1]:9876=six:1", "::1", "::1"), "six:1")

    def test_odd_asker(self) -> None:
        """An asker whose address is none is in no network."""
        self.assertIsNone(self.best("0.0.0.0/0=far:1", ""))

    def test_text(self) -> None:
        """The usual form has networks without host bits and no blanks, and is read to the same."""
        text = Advertised.parse(" 10.1.2.3/8 = h:1 ;; @:9 = [::1]:2 ;@::1=x:3;@[::1]:5=y:4").text
        self.assertEqual(text, "10.0.0.0/8=h:1;@:9=[::1]:2;@::1=x:3;@[::1]:5=y:4")
        self.assertEqual(Advertised.parse(text).text, text)
        self.assertEqual(Advertised.parse("").text, "")

    def test_refused(self) -> None:
        """What is no such list is refused with what is wrong with it."""
        for text, wrong in (
            ("10.0.0.0/8", "10.0.0.0/8: not of the form"),
            ("10.0.0.0/8=host", "not of the form"),
            ("10.0.0.0/8=host:0", "not of the form"),
            ("10.0.0.0/8=[::g]:1", "not of the form"),
            ("10.0.0.0/8=a b:1", "not of the form"),
            ("10.0.0.0/33=h:1", "10.0.0.0/33 is not a network"),
            ("=h:1", " is not a network"),
            ("eth0=h:1", "eth0 is not a network"),
            ("@=h:1", "@ is not a listening address"),
            ("@eth0=h:1", "@eth0 is not a listening address"),
            ("@:70000=h:1", "not a listening address"),
            ("@10.0.0.300:1=h:1", "not a listening address"),
            ("10.0.0.0/8=h:1;10.1.0.0/8=g:1", "10.0.0.0/8 is listed twice"),
            (";".join(f"10.0.0.{at}=h:1" for at in range(LIMIT + 1)), "more than 64"),
        ):
            error = self.assertRaises(ValueError, Advertised.parse, text)
            self.assertIn(wrong, str(error), text)
