"""Tests of smartgo.schema.requests."""

from __future__ import annotations

import json
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headers.send import SendRequestV2
from smartgo.schema.requests import SendTemplate


class SendTemplateTests(SynchronousTestCase):
    """Send frames from a template against those of the general encoder."""

    def test_same_as_encoder(self) -> None:
        """Whatever is filled in, the frame says what the general encoder would."""
        random = Random(3)
        texts = ("PG", 'a"b\\', "\u4e2d", "100%{}", "")
        for _ in range(300):
            batch = random.random() < 0.5
            header = SendRequestV2(
                producer_group=random.choice(texts),
                topic=random.choice(texts),
                default_topic="TBW102",
                default_topic_queue_nums=random.randrange(9),
                queue_id=random.randrange(-1, 99),
                sys_flag=random.getrandbits(31),
                born_timestamp=random.getrandbits(62),
                flag=-random.getrandbits(31),
                properties=random.choice(("", "KEYS\x01k\x02TAGS\x01\u4e2d\x02", 'x\x01"\\\n')),
                reconsume_times=random.randrange(20),
                max_reconsume_times=random.choice((None, 0, 16)),
                unit_mode=random.random() < 0.5,
                batch=batch,
                bname=random.choice((None, "broker-a", '"')),
            )
            body = random.randbytes(random.randrange(50))
            one_way = random.random() < 0.5
            request = Command.request(320 if batch else 310, header, body, one_way=one_way)
            request.opaque = random.getrandbits(31)
            template = SendTemplate(
                header.producer_group,
                header.topic,
                header.default_topic,
                header.default_topic_queue_nums,
                header.bname,
                header.unit_mode,
                batch,
            )
            frame = template.frame(
                request.opaque,
                header.queue_id,
                header.sys_flag,
                header.born_timestamp,
                header.flag,
                header.properties,
                body,
                header.reconsume_times,
                header.max_reconsume_times,
                one_way,
            )
            self.assertEqual(int.from_bytes(frame[:4], "big"), len(frame) - 4)
            read, built = decode(frame[4:]), decode(encode(request)[4:])
            self.assertEqual(json.loads(read.raw), json.loads(built.raw))
            self.assertEqual((read.header, read.body), (header, body))

    def test_surrogates(self) -> None:
        """Properties that are no text are refused."""
        template = SendTemplate("g", "t", "TBW102", 4)
        self.assertRaises(UnicodeEncodeError, template.frame, 1, 0, 0, 0, 0, "\ud800", b"")
