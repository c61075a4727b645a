"""The kinds of values that several keys share, and the text about a key."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

Count = Annotated[int, Meta(ge=1)]
Amount = Annotated[int, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(gt=0, lt=1)]  # neither nothing nor everything
Fraction = Annotated[float, Meta(gt=0, le=1)]
Portion = Annotated[float, Meta(ge=0, lt=1)]
Proportion = Annotated[float, Meta(ge=0, le=1)]
Position = int | Annotated[str, Meta(pattern=r"^([0-9]+|([0-9]|[1-9][0-9]|100)(\.[0-9]+)?\s*%)\Z")]
Device = Annotated[str, Meta(pattern=r"^(cpu|cuda(:[0-9]+)?)\Z")]
_SIZE = r"[0-9]+(\.[0-9]+)?\s*(%|[kKmMgGtT]?(i?[bB])?)"
Size = Annotated[str, Meta(pattern=rf"^({_SIZE})\Z")]
SizeOrAuto = Annotated[str, Meta(pattern=rf"^(auto|{_SIZE})\Z")]


def about(meaning: str, allowed: str = "", *, registry: str = "", own: bool = False) -> Meta:
    """What the reference and error messages say about a key.

    Args:
        meaning: What the key sets.
        allowed: The allowed values in words, where the type alone does not show them.
        registry: The module and the mapping, as in `slipstream.models:MODELS`, that lists the
            allowed names. It is imported when a run begins, so that the start stays fast.
        own: Whether users add names of their own to the registry.
    """
    extra: dict[str, Any] = {"allowed": allowed, "registry": registry, "own": own}
    return Meta(description=meaning, extra={name: value for name, value in extra.items() if value})
