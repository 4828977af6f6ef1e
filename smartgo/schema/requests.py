"""
JSON headers of send requests, written from templates in place of a header that is built and serialised.

The texts that stay the same from one send to the next (group, topic, flags) are kept ready; the others are put between
them. Used by L{smartgo.schema.command.encode}.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec

from smartgo.schema.codes import LANGUAGE, LANGUAGE_NAMES, VERSION
from smartgo.schema.headers.send import SendRequestV2

_quoted = msgspec.json.Encoder().encode
_MIDDLE = f',"language":"{LANGUAGE_NAMES[LANGUAGE]}","opaque":'
_END = f',"version":{VERSION}}}'

_CACHED = 4096  # producer groups and topics and brokers of one process

_constants = attrgetter(
    "producer_group", "topic", "default_topic", "default_topic_queue_nums", "bname", "unit_mode", "batch"
)
_rare = attrgetter("ns", "nsd", "oway", "lo", "req_t", "access_key", "signature", "security_token")
_NONE_RARE = (None,) * 8


class SendHeaders:
    """Writes the headers of a client's sends, with the texts that repeat kept ready."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: dict[tuple[object, ...], tuple[str, str]] = {}

    def write(self, code: int, opaque: int, flag: int, header: SendRequestV2) -> bytes | None:
        """
        Write the JSON header of a request of ours; C{None} where the header holds something out of the ordinary.

        @raise UnicodeEncodeError: a text holds a lone surrogate.
        """
        if _rare(header) != _NONE_RARE:
            return None
        key = _constants(header)
        begin, end = self._ready.get(key) or self._prepare(key)
        limit = header.max_reconsume_times
        more = "" if limit is None else f'","l":"{limit}'
        return b"".join(
            (
                f'{{"code":{code},"extFields":{begin}{header.queue_id}","f":"{header.sys_flag}","g":"'
                f'{header.born_timestamp}","h":"{header.flag}","i":'.encode(),
                _quoted(header.properties),
                f',"j":"{header.reconsume_times}{more}{end}{flag}{_MIDDLE}{opaque}{_END}'.encode(),
            )
        )

    def _prepare(self, key: tuple[object, ...]) -> tuple[str, str]:
        if len(self._ready) >= _CACHED:
            self._ready.clear()
        group, topic, template, queues, bname, unit_mode, batch = key
        hint = "" if bname is None else f',"n":{_text(bname)}'
        parts = self._ready[key] = (
            f'{{"a":{_text(group)},"b":{_text(topic)},"c":{_text(template)},"d":"{queues}","e":"',
            f'","k":"{"true" if unit_mode else "false"}","m":"{"true" if batch else "false"}"{hint}}},"flag":',
        )
        return parts


def _text(value: object) -> str:
    return _quoted(value).decode()
