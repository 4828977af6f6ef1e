"""The answer to a client without TLS where TLS is enforced."""

from __future__ import annotations

from typing import Final

from smartgo.errors import BadHeader, FramingError
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import decode, encode

REMARK: Final = (
    "TLS is enforced here, and this connection has none; connect with TLS"
    " (tls.enable=true for brokers and Java clients, --tls or --ca for smartgo)"
)

_SHORTEST: Final = 4  # bytes of a frame: its header word
_LONGEST: Final = 65536  # bytes; the first request of a client is a short one


def refusal(data: bytes) -> bytes:
    """
    Return the answer to the first request in what a client has sent first; nothing where there is no whole one in it.

    Nothing is done that was asked for. Clients of RocketMQ show the remark of an answer with code 1, and nothing but a
    lost connection where there is no answer.
    """
    try:
        frames = LengthFieldDecoder(_LONGEST, _SHORTEST).frames(data)
        request = decode(frames[0]) if frames else None
    except (FramingError, BadHeader):
        return b""
    if request is None or request.is_response or request.is_one_way:
        return b""
    return encode(request.answer(ResponseCode.SYSTEM_ERROR, REMARK))
