"""Topic ids: 16 bytes on the wire, 22 characters of URL-safe base64 everywhere else.

The text is the one that Kafka's own tools print, so an id of the ledger can be compared with theirs.
"""

import base64
import binascii
from functools import lru_cache

from ledger.errors import InvalidValueError

_RAW_LENGTH = 16
_TEXT_LENGTH = 22
_REMEMBERED = 1 << 15  # every request names the same topics again


def topic_id_text(raw: bytes) -> str:
    """The canonical text of the 16 bytes that requests and responses carry."""
    if len(raw) != _RAW_LENGTH:
        raise InvalidValueError(f"a topic id has 16 bytes, got {len(raw)}")
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


@lru_cache(maxsize=_REMEMBERED)
def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a canonical text; the inverse of `topic_id_text`."""
    try:
        raw = base64.b64decode(text.encode("ascii") + b"==", altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise InvalidValueError(f"a topic id is 22 characters of URL-safe base64, got {text!r}") from error
    if len(text) != _TEXT_LENGTH or topic_id_text(raw) != text:
        raise InvalidValueError(f"a topic id is 22 characters of URL-safe base64, got {text!r}")
    return raw
