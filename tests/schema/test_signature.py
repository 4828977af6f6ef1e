"""Tests of L{smartgo.schema.signature}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headers.ha import TailRequest
from smartgo.schema.headers.messages import QueryMessageRequest
from smartgo.schema.signature import AccessKey

KEY = AccessKey("RocketMQ", "12345678")


def received(request: Command) -> Command:
    """The request as it arrives."""
    return decode(encode(request)[4:])


def signed(body: bytes = b"Hello", **fields: str) -> Command:
    """A signed request."""
    request = Command.request(310, body=body, fields=fields)
    KEY.sign(request)
    return request


class CredentialsTests(SynchronousTestCase):
    """The signer of a request."""

    def test_rocketmq(self) -> None:
        """A signature is the one that RocketMQ's client makes (docs/spec/remoting#vectors)."""
        request = signed(
            a="PG", b="TopicTest", c="TBW102", d="4", e="0", f="0", g="1600000000000", h="0", i="TAGS\x01TagA",
            j="0", k="false", m="false",
        )  # fmt: skip
        self.assertEqual(request.fields["AccessKey"], "RocketMQ")
        self.assertEqual(request.fields["Signature"], "7HYobZrs+lmFjqJIGfwTdxtHTmg=")
        self.assertTrue(KEY.signed(received(request)))

    def test_typed(self) -> None:
        """Fields of a typed header count as they are written."""
        request = Command.request(30001, TailRequest(begin=1, end=5, follow=True))
        KEY.sign(request)
        self.assertTrue(KEY.signed(received(request)))

    def test_added_later(self) -> None:
        """A field that RocketMQ's clients add after they signed does not count (docs/spec/remoting#acl)."""
        request = signed(topic="T", key="K")
        request.fields["_UNIQUE_KEY_QUERY"] = "true"
        self.assertTrue(KEY.signed(received(request)))

    def test_query(self) -> None:
        """Our own queries have that field before they are signed: it is not signed either."""
        request = Command.request(12, QueryMessageRequest("TopicTest", "word", 32, 0, 1))
        self.assertIn("_UNIQUE_KEY_QUERY", request.fields)
        KEY.sign(request)
        self.assertTrue(KEY.signed(received(request)))

    def test_changed(self) -> None:
        """One that was changed on its way, or is signed by another key, is not signed by ours."""
        whole = signed(a="1", b="ü\ud800")
        self.assertTrue(KEY.signed(whole))
        for name, value in (("a", "2"), ("c", "x"), ("AccessKey", "rocketmq"), ("Signature", ""), ("Signature", "ä")):
            request = signed(a="1")
            request.fields[name] = value
            self.assertFalse(KEY.signed(request), name)
        for name in ("a", "AccessKey", "Signature"):
            request = signed(a="1")
            del request.fields[name]
            self.assertFalse(KEY.signed(request), name)
        request = signed(a="1")
        request.body = b"hello"
        self.assertFalse(KEY.signed(request))
        for other in (AccessKey("RocketMQ", "12345679"), AccessKey("Rocket", "12345678")):
            self.assertFalse(other.signed(signed(a="1")))
        self.assertFalse(KEY.signed(Command.request(310)))

    def test_shown(self) -> None:
        """The secret is in no text that tells of a key."""
        self.assertEqual((repr(KEY), str(KEY)), ("AccessKey('RocketMQ')", "AccessKey('RocketMQ')"))
