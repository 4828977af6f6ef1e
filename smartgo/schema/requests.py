"""
Ready-made request frames: the sends of one producer to one broker, filled in instead of built and serialised.

For JSON headers without a signature; a signed request needs its ext fields one by one and goes through
L{smartgo.schema.command.encode}.
"""

from __future__ import annotations

import msgspec

from smartgo.schema.codes import LANGUAGE, LANGUAGE_NAMES, VERSION, RequestCode
from smartgo.schema.commandlayout import JSON, ONE_WAY, prefix_struct

_pack_prefix = prefix_struct.pack
_quoted = msgspec.json.Encoder().encode
_MIDDLE = f',"language":"{LANGUAGE_NAMES[LANGUAGE]}","opaque":'
_END = f',"version":{VERSION}}}'


class SendTemplate:
    """What stays the same from one SEND_MESSAGE_V2 (310) or SEND_BATCH_MESSAGE (320) to the next."""

    __slots__ = ("_begin", "_end")

    def __init__(
        self,
        producer_group: str,
        topic: str,
        default_topic: str,
        default_topic_queue_nums: int,
        bname: str | None = None,
        unit_mode: bool = False,
        batch: bool = False,
    ) -> None:
        """
        @param default_topic: the template topic to create C{topic} from.
        @param bname: the name of the broker that is meant.
        @param batch: the bodies are batches, sent under code 320.
        """
        code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
        self._begin = (
            f'{{"code":{int(code)},"extFields":{{"a":{_text(producer_group)},"b":{_text(topic)},'
            f'"c":{_text(default_topic)},"d":"{default_topic_queue_nums}","e":"'
        )
        hint = "" if bname is None else f',"n":{_text(bname)}'
        self._end = f'","k":"{_spelled(unit_mode)}","m":"{_spelled(batch)}"{hint}}},"flag":'

    def frame(
        self,
        opaque: int,
        queue_id: int,
        sys_flag: int,
        born_timestamp: int,
        flag: int,
        properties: str,
        body: bytes,
        reconsume_times: int = 0,
        max_reconsume_times: int | None = None,
        one_way: bool = False,
    ) -> bytes:
        """
        Write a whole frame.

        @param born_timestamp: wall clock, in ms.
        @param properties: the text of C{remoting.md} section 6.
        @raise UnicodeEncodeError: C{properties} holds a lone surrogate.
        """
        limit = "" if max_reconsume_times is None else f'","l":"{max_reconsume_times}'
        header = b"".join(
            (
                f'{self._begin}{queue_id}","f":"{sys_flag}","g":"{born_timestamp}","h":"{flag}","i":'.encode(),
                _quoted(properties),
                f',"j":"{reconsume_times}{limit}{self._end}{ONE_WAY if one_way else 0}{_MIDDLE}{opaque}{_END}'.encode(),
            )
        )
        size = len(header)
        return b"".join((_pack_prefix(4 + size + len(body), JSON << 24 | size), header, body))


def _text(value: str) -> str:
    return _quoted(value).decode()


def _spelled(value: bool) -> str:
    return "true" if value else "false"
