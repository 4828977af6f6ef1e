"""
The words of brokers and registries whose access control refuses a request.

RocketMQ 4.9 and smartgo refuse with the code 1, which stands for other things as well, so that the remark has to tell:
RocketMQ's begins with the name of its exception (C{AclException}, C{PlainPermissionManager} of 4.9.7), smartgo's is a
sentence of L{smartgo.auth.decisions}. RocketMQ 5 has a code for it, and the same sentences for users.
"""

from __future__ import annotations

import re
from typing import Final

from smartgo.errors import PeerRefused
from smartgo.schema.codes import ResponseCode

_WORDS: Final = re.compile(
    "AclException|AuthenticationException|AuthorizationException|No accessKey is configured|Check signature failed"
    "|Need admin permission|No permission for (topic|group) |has no permission to access |is no super user"
    "|no accessKey says whose|may not publish to any topic|is not known to access control"
)


def words_deny(remark: str) -> bool:
    """Tell whether a remark says that access control refuses a request."""
    return _WORDS.search(remark) is not None


def is_denial(refusal: PeerRefused) -> bool:
    """Tell whether an answer refuses a request for lack of a key or of a permission."""
    return refusal.code == ResponseCode.NO_PERMISSION or words_deny(refusal.remark)
