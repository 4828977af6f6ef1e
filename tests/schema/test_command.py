"""Tests of smartgo.schema.command: frames and their headers, both encodings."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadFrameLength, BadHeader, BadHeaderLength
from smartgo.schema.codes import LANGUAGE, VERSION, LanguageCode, RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandjson import decode_json
from smartgo.schema.commandlayout import BINARY, BINARY_HEADER, FRAME, JSON
from smartgo.schema.headerfields import Header, to_fields
from smartgo.schema.headers.offsets import OffsetResponse, QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest, PullResponse
from smartgo.schema.headers.send import SendRequest, SendRequestV2, SendResponse
from tests.schema.golden_wire import recorded

SEND = {
    "a": "PG",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1600000000000",
    "h": "0",
    "i": "TAGS\x01TagA",
    "j": "0",
    "k": "false",
    "m": "false",
}


def frame_of(header: dict[str, Any] | bytes, body: bytes = b"", encoding: int = JSON) -> bytes:
    """Build a frame without its length word; a dict is written as JSON."""
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return (encoding << 24 | len(raw)).to_bytes(4, "big") + raw + body


def send(**changed: Any) -> bytes:
    """Build a SEND_MESSAGE_V2 frame, opaque 7, with some ext fields changed or, by C{None}, absent."""
    fields = {name: value for name, value in (SEND | changed).items() if value is not None}
    return frame_of({"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7, "version": 409})


def said(command: Command) -> tuple[Any, ...]:
    """List what a command says, apart from how it was received."""
    return (
        command.code,
        command.opaque,
        command.flag,
        command.language,
        command.version,
        command.remark,
        command.encoding,
        command.fields,
        command.body,
    )


class GoldenTests(SynchronousTestCase):
    """Frames of official clients and servers."""

    def test_decoded_as_recorded(self) -> None:
        """Every recorded frame is read as its recorder read it."""
        for each in recorded():
            header, command = each.header, decode(each.frame)
            self.assertEqual(
                (command.code, command.opaque, command.flag, command.version, command.remark, command.fields),
                (
                    *(header.get(name) for name in ("code", "opaque", "flag", "version", "remark")),
                    header.get("extFields", {}),
                ),
            )
            self.assertEqual(command.language, LanguageCode[header["language"]])
            self.assertEqual(command.encoding, JSON if each.about["serialize"] == "JSON" else BINARY)
            self.assertEqual(command.is_response, each.about["kind"] == "response")
            self.assertEqual(command.is_one_way, each.about["kind"] == "oneway")
            self.assertEqual(len(command.raw), each.about["headerLength"])
            self.assertEqual(command.raw + command.body, each.frame[4:])

    def test_survives_encoding(self) -> None:
        """What was decoded and encoded again says the same, in either encoding."""
        for each in recorded():
            command = decode(each.frame)
            for encoding in (JSON, BINARY):
                command.encoding = encoding
                again = encode(command)
                self.assertEqual(int.from_bytes(again[:4], "big"), len(again) - 4)
                self.assertEqual(said(decode(again[4:])), said(command))

    def test_hot_requests_are_typed(self) -> None:
        """The headers of sends, pulls and offset requests come out typed in either encoding, and no others."""
        hot = {10, 310, 320, 324, 325, 11, 361, 14, 15}
        seen = set()
        for each in recorded():
            command = decode(each.frame)
            expected = not command.is_response and command.code in hot
            self.assertEqual(command.header is not None, expected, each.about)
            if expected:
                seen.add(command.code)
        self.assertEqual(seen, hot - {10, 324})

    def test_typed_as_text(self) -> None:
        """The typed header of a recorded request holds all its ext fields, and writes them as they came."""
        kinds: dict[int, type[Header]] = {
            310: SendRequest,
            320: SendRequest,
            325: SendRequest,
            11: PullRequest,
            361: PullRequest,
        }
        kinds |= {14: QueryOffsetRequest, 15: UpdateOffsetRequest}
        for each in recorded():
            command = decode(each.frame)
            kind = kinds.get(command.code)
            if kind is not None and not command.is_response:
                typed = Command.request(command.code, command.read(kind))
                self.assertEqual(typed.fields, command.fields)

    def test_oracle(self) -> None:
        """The construct schemas, the document of the format, read every recorded frame as the fast code does."""
        for each in recorded():
            command = decode(each.frame)
            frame = FRAME.parse((len(each.frame)).to_bytes(4, "big") + each.frame)
            self.assertEqual((frame.encoding, frame.header, frame.body), (command.encoding, command.raw, command.body))
            if command.encoding == BINARY:
                header = BINARY_HEADER.parse(command.raw)
                self.assertEqual(
                    (header.code, header.language, header.version, header.opaque, header.flag),
                    (command.code, command.language, command.version, command.opaque, command.flag),
                )
                self.assertEqual(header.remark.decode() or None, command.remark)
                self.assertEqual({field.name: field.value for field in header.fields}, command.fields)


class VectorTests(SynchronousTestCase):
    """The reference vectors of the protocol's specification."""

    REQUEST_BINARY = bytes.fromhex(
        "0000002d 01000029 0069 00 0199 00000007 00000000 00000000 000000140005 746f706963 00000009 546f70696354657374"
    )
    REQUEST_JSON = bytes.fromhex("0000008700000083") + (
        b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":409}'
    )
    RESPONSE_BINARY = bytes.fromhex(
        "00000023 0100001d 0011 00 0199 00000007 00000001 00000008 6e6f20746f706963 00000000 6869"
    )
    RESPONSE_JSON = (
        bytes.fromhex("0000007a00000074") + b'{"code":17,"flag":1,"language":"JAVA","opaque":7,"remark":"no topic",'
        b'"serializeTypeCurrentRPC":"JSON","version":409}hi'
    )

    def test_request(self) -> None:
        """A route request is read from both encodings, and written to the very bytes in the binary one."""
        for frame, encoding in ((self.REQUEST_BINARY, BINARY), (self.REQUEST_JSON, JSON)):
            command = decode(frame[4:])
            self.assertEqual(said(command), (105, 7, 0, 0, 409, None, encoding, {"topic": "TopicTest"}, b""))
        self.assertEqual(encode(decode(self.REQUEST_BINARY[4:])), self.REQUEST_BINARY)

    def test_response(self) -> None:
        """An error answer with a body is read from both encodings, and written to the very bytes in the binary one."""
        for frame, encoding in ((self.RESPONSE_BINARY, BINARY), (self.RESPONSE_JSON, JSON)):
            command = decode(frame[4:])
            self.assertEqual(said(command), (17, 7, 1, 0, 409, "no topic", encoding, {}, b"hi"))
            self.assertTrue(command.is_response)
        self.assertEqual(encode(decode(self.RESPONSE_BINARY[4:])), self.RESPONSE_BINARY)


class LengthTests(SynchronousTestCase):
    """Lengths that end the connection."""

    def test_short_frame(self) -> None:
        """A frame without room for its header word breaks the stream."""
        for size in range(4):
            self.assertRaises(BadFrameLength, decode, b"\0" * size)

    def test_header_longer_than_frame(self) -> None:
        """A header announced longer than its frame breaks the stream."""
        frame = send()
        for cut in range(4, len(frame)):
            self.assertRaises(BadHeaderLength, decode, frame[:cut])

    def test_header_limit(self) -> None:
        """A header of 256 KiB is read, one byte more breaks the stream."""
        base = len(json.dumps({"code": 105, "remark": ""}, separators=(",", ":")))
        fits = frame_of({"code": 105, "remark": "x" * (256 * 1024 - base)})
        self.assertEqual(len(decode(fits).raw), 256 * 1024)
        over = frame_of({"code": 105, "remark": "x" * (256 * 1024 - base + 1)})
        error = self.assertRaises(BadHeaderLength, decode, over)
        self.assertEqual(error.limit, 256 * 1024)

    def test_unknown_encoding(self) -> None:
        """An encoding that is neither JSON nor binary breaks the stream."""
        for encoding in (2, 0x16, 0x80, 0xFF):
            self.assertRaises(BadHeaderLength, decode, frame_of(b"{}", encoding=encoding))

    def test_own_header_limit(self) -> None:
        """A header of ours that a peer would not take is refused where it is written."""
        for encoding in (JSON, BINARY):
            command = Command.request(105, fields={"topic": "x" * 256 * 1024})
            command.encoding = encoding
            self.assertRaises(BadHeader, encode, command)


class JsonHeaderTests(SynchronousTestCase):
    """Accepted and refused JSON headers."""

    def refused(self, header: dict[str, Any] | bytes) -> BadHeader:
        """Check that a header is refused as content, not as framing."""
        error: BadHeader = self.assertRaises(BadHeader, decode, frame_of(header))
        self.assertEqual((error.code, error.encoding), (1, JSON))
        return error

    def test_absent_members(self) -> None:
        """All members may be absent; absent and null mean the same."""
        expected: tuple[Any, ...] = (0, 0, 0, LanguageCode.JAVA, 0, None, JSON, {}, b"")
        self.assertEqual(said(decode(frame_of({}))), expected)
        names = ("code", "opaque", "flag", "version", "remark", "extFields")
        self.assertEqual(said(decode(frame_of(dict.fromkeys(names)))), expected)
        self.assertEqual(said(decode(frame_of({"code": 310})))[0], 310)

    def test_unknown_members(self) -> None:
        """Unknown members are ignored, whatever they hold."""
        command = decode(frame_of({"code": 105, "opaque": 3, "more": [{"x": 1}], "extFields": {"topic": "T"}}))
        self.assertEqual((command.code, command.opaque, command.fields), (105, 3, {"topic": "T"}))

    def test_blanks_and_order(self) -> None:
        """Blanks and the order of members do not matter."""
        raw = json.dumps({"opaque": 7, "version": 1, "extFields": dict(reversed(SEND.items())), "code": 310}, indent=1)
        self.assertEqual(decode(frame_of(raw.encode())).read(SendRequest), decode(send()).header)

    def test_languages(self) -> None:
        """GOLANG is 9, ordinals are taken, and what is unknown is OTHER."""
        for name, code in (("GOLANG", 9), ("GO", 9), ("RUST", 12), ("PASCAL", 7), (3, 3), (99, 7), (None, 7), ({}, 7)):
            for code_of_request in (310, 105, 34):
                header = {"code": code_of_request, "language": name, "extFields": SEND}
                self.assertEqual(decode(frame_of(header)).language, code, name)

    def test_numbers_for_text(self) -> None:
        """Ext fields that are no strings become the text that fastjson makes of them; null ones are absent."""
        fields = {"a": 1, "b": True, "c": None, "d": "x", "e": {"f": [1]}, "g": 1.5}
        command = decode(frame_of({"code": 105, "extFields": fields}))
        self.assertEqual(command.fields, {"a": "1", "b": "true", "d": "x", "e": '{"f":[1]}', "g": "1.5"})

    def test_duplicates(self) -> None:
        """Of duplicate members the last wins."""
        command = decode(frame_of(b'{"code":310,"opaque":1,"opaque":2,"code":105,"extFields":{"a":"1","a":"2"}}'))
        self.assertEqual((command.code, command.opaque, command.fields), (105, 2, {"a": "2"}))

    def test_no_object(self) -> None:
        """A header that is no JSON object is refused."""
        for raw in (
            b"",
            b"[]",
            b"1",
            b'"x"',
            b"null",
            b"{",
            b"{}{}",
            b"\xef\xbb\xbf{}",
            b'{"extFields":[]}',
            b"{'code':1}",
        ):
            self.refused(raw)

    def test_error_names_the_header(self) -> None:
        """What is wrong with a header is said of the header, not of a body."""
        for raw in (b'{"opaque":1', b'{"remark":"\xff"}', b"[" * 40, b'{"a":"\x00"}', b'{"a":' + b"1" * 30 + b"}"):
            with self.assertRaises(BadHeader) as caught:
                decode_json(raw)
            self.assertTrue(str(caught.exception).startswith("header"), str(caught.exception))
            self.assertNotIn("body", str(caught.exception))

    def test_not_utf8(self) -> None:
        """Bytes that are not UTF-8 and lone surrogates are refused wherever they stand."""
        for text in (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", rb"\ud800", rb"\udc00\ud800"):
            for raw in (b'{"remark":"%s"}', b'{"x":"%s"}', b'{"extFields":{"a":"%s"}}', b'{"%s":1}'):
                self.refused(raw % text)
            self.refused(send(i="@")[4:].replace(b"@", text))

    def test_numbers(self) -> None:
        """Code, opaque, flag and version are int32; a float, a longer number or another type is refused."""
        bad: list[Any] = [2**31, -(2**31) - 1, 1.5, 1e3, "1.0", "1e3", "x", "", True, [], 10**25]
        for name in ("code", "opaque", "flag", "version"):
            for value in bad:
                for others in ({"extFields": SEND}, {}):
                    header = {"code": 310, **others, name: value}
                    self.refused(header)
            for text in (str(2**31 - 1), str(-(2**31)), '"17"'):
                command = decode(frame_of(b'{"code":310,"%s":%s}' % (name.encode(), text.encode())))
                self.assertEqual(getattr(command, name), int(text.strip('"')))

    def test_no_nan(self) -> None:
        """NaN, Infinity and numbers of more than 19 digits are refused even where nobody reads them."""
        for value in (b"NaN", b"Infinity", b"-Infinity", b"12345678901234567890"):
            self.refused(b'{"x":%s}' % value)

    def test_depth(self) -> None:
        """JSON may be 16 deep, not 17, nor forty thousand; brackets within texts do not count."""
        self.assertEqual(decode(frame_of(b'{"code":5,"x":' + b"[" * 15 + b"]" * 15 + b"}")).code, 5)
        for depth in (16, 2000, 40000):
            self.refused(b'{"code":5,"x":' + b"[" * depth + b"]" * depth + b"}")
            self.refused(b'{"x":' * (depth + 1) + b"1" + b"}" * (depth + 1))
        self.assertEqual(decode(send(i="[{" * 100, zz="x")).fields["i"], "[{" * 100)

    def test_field_count(self) -> None:
        """A header may have 128 ext fields, not 129."""
        for code in (0, 105, 106):
            fields = {f"f{number}": "" for number in range(128)}
            self.assertEqual(len(decode(frame_of({"code": code, "extFields": fields})).fields), 128)
            error = self.refused({"code": code, "opaque": 5, "extFields": fields | {"more": 1}})
            self.assertEqual(error.opaque, 5)
            self.refused({"code": code, "extFields": fields | {"more": "1"}})

    def test_error_tells_opaque(self) -> None:
        """A refused header still gives the opaque and the flag where they can be made out."""
        error = self.refused(b'{"code":1,"opaque":42,"flag":2,"extFields":{"a":NaN}}')
        self.assertEqual((error.opaque, error.flag), (42, 2))
        error = self.refused(b'{"code":1,"opaque" : "43","x":')
        self.assertEqual((error.opaque, error.flag), (43, None))
        for opaque in (b"99999999999", b"4294967296", b"1.5", b"1e3", b"x"):
            self.assertIsNone(self.refused(b'{"opaque":%s,"x":NaN}' % opaque).opaque)


class FieldTests(SynchronousTestCase):
    """Ext fields read as typed headers."""

    def test_hot_integers(self) -> None:
        """A number of a hot header is ASCII digits within its range: anything else names the field, with code 1."""
        for text in (
            "",
            " 1",
            "1 ",
            "+1",
            "1.0",
            "1e3",
            "1E3",
            "0x1",
            "1_0",
            "\u0661",
            "2147483648",
            "-2147483649",
            "true",
            "9" * 20,
        ):
            error = self.assertRaises(BadHeader, decode(send(e=text)).read, SendRequest)
            self.assertIn("<e>", str(error))
            self.assertEqual(error.code, 1)
        for text, value in (("0", 0), ("-0", 0), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))):
            self.assertEqual(decode(send(e=text)).read(SendRequest).queue_id, value)
        for text, value in (("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))):
            self.assertEqual(decode(send(g=text)).read(SendRequest).born_timestamp, value)
        for text in ("9223372036854775808", "-9223372036854775809", "1e18"):
            self.assertRaises(BadHeader, decode(send(g=text)).read, SendRequest)

    def test_bare_numbers(self) -> None:
        """A bare JSON number counts as its text, a bare float is no integer."""
        self.assertEqual(decode(send(e=3)).read(SendRequest).queue_id, 3)
        for value in (1.0, 1e3, 1.5, 2**31):
            self.assertRaises(BadHeader, decode(send(e=value)).read, SendRequest)

    def test_booleans(self) -> None:
        """A boolean is true where Java says so: the word in any case, and nothing else."""
        for text, value in (
            ("true", True),
            ("TRUE", True),
            ("tRue", True),
            ("1", False),
            ("yes", False),
            ("", False),
            ("0", False),
            ("false", False),
            (" true", False),
            (1, False),
            (True, True),
            (False, False),
        ):
            self.assertIs(decode(send(m=text)).read(SendRequest).batch, value, text)
            self.assertIs(decode(send(k=text)).read(SendRequest).unit_mode, value, text)
            query = frame_of(
                {
                    "code": 14,
                    "extFields": {"consumerGroup": "g", "topic": "t", "queueId": "0", "setZeroIfNotFound": text},
                }
            )
            self.assertIs(decode(query).read(QueryOffsetRequest).set_zero_if_not_found, value, text)

    def test_missing(self) -> None:
        """A required field that is absent is named, in RocketMQ's words."""
        error = self.assertRaises(BadHeader, decode(send(b=None)).read, SendRequest)
        self.assertEqual(str(error), "the custom field <b> is null")
        error = self.assertRaises(BadHeader, decode(frame_of({"code": 310})).read, SendRequest)
        self.assertEqual(str(error), "the custom field <a> is null")

    def test_unknown_fields(self) -> None:
        """Unknown ext fields cost nothing but speed: the typed header is the same."""
        command = decode(send(zz="1", ns="space"))
        self.assertIsNone(command.header)
        header = command.read(SendRequest)
        self.assertIsInstance(header, SendRequestV2)
        self.assertEqual((header.topic, header.ns), ("TopicTest", "space"))
        self.assertIs(command.header, header)
        self.assertEqual(command.fields["zz"], "1")

    def test_every_reader_agrees(self) -> None:
        """The fast JSON reader, the slow one and the binary one make the same header of the same fields."""
        fast = decode(send())
        slow = decode(send(zz="1"))
        binary = Command.request(310, fields=SEND)
        binary.encoding = BINARY
        read = decode(encode(binary)[4:])
        self.assertIsInstance(fast.header, SendRequestV2)
        self.assertEqual(slow.read(SendRequest), fast.header)
        self.assertEqual(read.read(SendRequest), fast.header)
        self.assertEqual(fast.fields, SEND)

    def test_codes_shared_with_responses(self) -> None:
        """A response whose code equals a hot request's is no request."""
        fields = {"consumerGroup": "g", "topic": "t", "queueId": "1"}
        for code, kind in ((14, QueryOffsetRequest), (11, PullRequest), (10, SendRequest)):
            command = decode(frame_of({"code": code, "flag": 1, "extFields": fields}))
            self.assertTrue(command.is_response)
            self.assertIsNone(command.header, kind)
            self.assertEqual(command.fields, fields)

    def test_response_headers(self) -> None:
        """The client's side reads what the broker's side wrote."""
        request = decode(send())
        for encoding in (JSON, BINARY):
            request.encoding = encoding
            sent = SendResponse("0A00", 3, 77, region="DefaultRegion", trace_on=True)
            read = decode(encode(request.answer(header=sent))[4:])
            self.assertEqual(read.read(SendResponse), sent)
            self.assertEqual(read.fields["TRACE_ON"], "true")
            pulled = PullResponse(0, 5, 0, 2**62)
            self.assertEqual(decode(encode(request.answer(20, "x", pulled))[4:]).read(PullResponse), pulled)
            self.assertEqual(
                decode(encode(request.answer(header=OffsetResponse(-1)))[4:]).read(OffsetResponse).offset, -1
            )


class OwnCommandTests(SynchronousTestCase):
    """Commands made here."""

    def test_request(self) -> None:
        """A request carries our language and version, its typed fields as text, and those given beside them."""
        command = Command.request(
            RequestCode.UPDATE_CONSUMER_OFFSET, UpdateOffsetRequest("g", "t", 1, 2**40), b"x", {"k": "v"}, True
        )
        self.assertTrue(command.is_one_way)
        self.assertFalse(command.is_response)
        read = decode(encode(command)[4:])
        fields = {"consumerGroup": "g", "topic": "t", "queueId": "1", "commitOffset": str(2**40), "k": "v"}
        self.assertEqual(said(read), (15, 0, 2, LANGUAGE, VERSION, None, JSON, fields, b"x"))

    def test_answer(self) -> None:
        """An answer copies the opaque and the encoding, and says who answers."""
        for encoding in (JSON, BINARY):
            request = decode(send())
            request.encoding = encoding
            answer = request.answer(17, "no topic", body=b"b", fields={"a": "1"})
            self.assertEqual(
                said(decode(encode(answer)[4:])), (17, 7, 1, LANGUAGE, VERSION, "no topic", encoding, {"a": "1"}, b"b")
            )

    def test_fields_can_be_added(self) -> None:
        """A field put into the ext fields of a command of ours is sent: a signature, say."""
        command = Command.request(14, QueryOffsetRequest("g", "t", 0))
        command.fields["Signature"] = "s"
        self.assertEqual(decode(encode(command)[4:]).read(QueryOffsetRequest).signature, "s")

    def test_compact(self) -> None:
        """JSON is written without blanks, with ext fields as strings and nothing that is null."""
        raw = encode(Command.request(14, QueryOffsetRequest("g", "t", 0)))[8:]
        self.assertNotIn(b" ", raw)
        self.assertNotIn(b"null", raw)
        self.assertEqual(json.loads(raw)["extFields"], {"consumerGroup": "g", "topic": "t", "queueId": "0"})

    def test_surrogates(self) -> None:
        """A lone surrogate in a text of ours becomes a question mark instead of an error."""
        for encoding in (JSON, BINARY):
            answer = decode(send()).answer(1, "bad \ud800", fields={"x": "\udfff"})
            answer.encoding = encoding
            read = decode(encode(answer)[4:])
            self.assertEqual((read.remark, read.fields), ("bad ?", {"x": "?"}))

    def test_sends(self) -> None:
        """The header of a send says what its ext fields say."""
        random = Random(3)
        texts = ("PG", 'a"b\\', "\u4e2d", "100%{}", "", "x\ud800")
        for _ in range(400):
            header = SendRequestV2(
                producer_group=random.choice(texts[:5]),
                topic=random.choice(texts[:5]),
                default_topic="TBW102",
                default_topic_queue_nums=random.randrange(9),
                queue_id=random.randrange(-1, 99),
                sys_flag=random.getrandbits(31),
                born_timestamp=random.getrandbits(62),
                flag=-random.getrandbits(31),
                properties=random.choice(("", "KEYS\x01k\x02TAGS\x01\u4e2d\x02", 'x\x01"\\\n', texts[5])),
                reconsume_times=random.randrange(20),
                max_reconsume_times=random.choice((None, 0, 16)),
                unit_mode=random.random() < 0.5,
                batch=random.random() < 0.5,
                bname=random.choice((None, *texts)),
                ns=random.choice((None, None, None, "space")),
            )
            command = Command.request(random.choice((310, 320)), header, b"body", one_way=random.random() < 0.5)
            command.opaque = random.getrandbits(31)
            command.version = random.choice((VERSION, VERSION, 1))
            written = encode(command)
            general = Command.request(command.code, body=b"body", fields=to_fields(header))
            general.opaque, general.flag, general.version = command.opaque, command.flag, command.version
            expected = encode(general)
            self.assertEqual(json.loads(written[8:-4]), json.loads(expected[8:-4]))
            self.assertEqual(
                written[:8] + written[-4:],
                (len(written) - 4).to_bytes(4, "big") + (len(written) - 12).to_bytes(4, "big") + b"body",
            )
            self.assertNotIn(b": ", written)

    def test_binary_range(self) -> None:
        """A code above 16 bits does not fit the binary encoding, and says so."""
        command = Command.request(RequestCode.POP_MESSAGE)
        self.assertEqual(decode(encode(command)[4:]).code, 200050)
        command.encoding = BINARY
        self.assertIn("200050", str(self.assertRaises(BadHeader, encode, command)))
        command = Command.request(105, fields={"n" * 40000: ""})
        command.encoding = BINARY
        self.assertRaises(BadHeader, encode, command)
