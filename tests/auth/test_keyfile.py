"""Tests of L{smartgo.auth.keyfile}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.keyfile import load_key_file, read_key_file
from smartgo.errors import SettingError
from smartgo.schema.command import Command
from tests.fakes import FakeEnvironment

SECRET = "a secret for tests"


class KeyFileTests(SynchronousTestCase):
    """The file with the key of a program."""

    def test_tools(self) -> None:
        """A tools.yml of RocketMQ is read; numbers count as text; a token is sent along."""
        request = Command.request(310, body=b"x", fields={"a": "1"})
        key = read_key_file("accessKey: 12345678\nsecretKey: 87654321\nsecurityToken: t\n")
        key.sign(request)
        self.assertEqual((request.fields["AccessKey"], request.fields["SecurityToken"]), ("12345678", "t"))
        self.assertTrue(read_key_file("{accessKey: '12345678', secretKey: '87654321'}").signed(request))

    def test_refused(self) -> None:
        """A file without a whole key is refused, in words that do not show the secret."""
        for text, said in (
            ("", "it has no accessKey and secretKey"),
            (f"- {SECRET}", "it has no accessKey and secretKey"),
            (f"secretKey: {SECRET}", "it has no accessKey"),
            ("accessKey: somebody", "it has no secretKey"),
            (f"accessKey: x\nsecretKey: [{SECRET}]", "its secretKey is no text for YAML, put it in quotes"),
            ("accessKey: ''\nsecretKey: x", "its accessKey is no text for YAML, put it in quotes"),
            ("accessKey: true\nsecretKey: x", "its accessKey is no text for YAML, put it in quotes"),
            (f"accessKey: x\nsecretKey: '{SECRET}", "it is no YAML"),
            ("a: 2001-99-99", "it is no YAML"),
        ):
            self.assertEqual(str(self.assertRaises(SettingError, read_key_file, text)), said, text)

    def test_load(self) -> None:
        """The path is named where the file cannot be used."""
        files = FakeEnvironment().files
        said = str(self.assertRaises(SettingError, load_key_file, files, "/etc/key.yml"))
        self.assertEqual(said, "key file /etc/key.yml: No such file")
        files.make_directories("/etc")
        for data, reason in ((b"\xff", "it is no UTF-8"), (b"a: 1", "it has no accessKey")):
            files.replace("/etc/key.yml", data)
            said = str(self.assertRaises(SettingError, load_key_file, files, "/etc/key.yml"))
            self.assertEqual(said, f"key file /etc/key.yml: {reason}")
        files.replace("/etc/key.yml", b"accessKey: somebody\nsecretKey: something\n")
        self.assertEqual(load_key_file(files, "/etc/key.yml").access_key, "somebody")
