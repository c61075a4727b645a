"""JSON files that hold their own checksum, as the value of the key `checksum`."""

import hashlib
import re

NO_CHECKSUM = "0" * 64
"""Stands in place of the checksum while it is computed."""
_CHECKSUM = re.compile(rb'("checksum": ")([0-9a-f]{64})(")')


def sign(text: str) -> str:
    """The text with its checksum in the first place of `NO_CHECKSUM`."""
    return text.replace(NO_CHECKSUM, hashlib.sha256(text.encode()).hexdigest(), 1)


def is_signed(raw: bytes) -> bool:
    """Whether the checksum in a file is that of its other bytes."""
    checksum = _CHECKSUM.search(raw)
    unsigned = _CHECKSUM.sub(rb"\g<1>" + NO_CHECKSUM.encode() + rb"\g<3>", raw, count=1)
    return checksum is not None and hashlib.sha256(unsigned).hexdigest() == checksum[2].decode()
