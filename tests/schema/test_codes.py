"""Tests of smartgo.schema.codes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import codes
from smartgo.schema.codes import LanguageCode, RequestCode, ResponseCode, Version
from tests.schema.golden_wire import recorded


class CodesTests(SynchronousTestCase):
    """The numbers of the protocol."""

    def test_recorded_names(self) -> None:
        """Every code that official clients and servers were seen to use has their name here."""
        for each in recorded():
            kind = ResponseCode if each.about["kind"] == "response" else RequestCode
            self.assertEqual(kind[each.about["code_name"]], each.header["code"])

    def test_shared_numbers(self) -> None:
        """Where two releases use one number for two things, both names are known."""
        self.assertEqual(RequestCode.REGISTER_TOPIC_IN_NAMESRV, RequestCode["GET_KV_CONFIG_BY_VALUE"])
        self.assertEqual(ResponseCode.POLLING_FULL, ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED)

    def test_own_numbers(self) -> None:
        """What only smartgo knows fits a binary header, and leaves RocketMQ's numbers below 10,000 room to grow."""
        self.assertTrue(10_000 < RequestCode.GET_LOG_TAIL < 2**15)

    def test_languages(self) -> None:
        """Language codes are the protocol's, GOLANG is read as GO, and GO is what is written."""
        self.assertEqual([int(each) for each in LanguageCode], list(range(14)))
        self.assertEqual(codes.LANGUAGE_CODES["GOLANG"], LanguageCode.GO)
        self.assertEqual(codes.LANGUAGE_NAMES[LanguageCode.GO], "GO")
        self.assertEqual(codes.LANGUAGE_NAMES[codes.LANGUAGE], "PYTHON")

    def test_versions(self) -> None:
        """This server calls itself 4.9.8, new enough for the SQL92 pulls of clients."""
        self.assertEqual(codes.VERSION, 409)
        self.assertGreater(codes.VERSION, Version.V4_1_0_SNAPSHOT)
