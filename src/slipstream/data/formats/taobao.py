"""Taobao UserBehavior: events, of which each is a click on the next item of its user."""

from __future__ import annotations

from slipstream.data.formats.spec import Categorical, History, LogSpec, Negatives, Time


def taobao(history: int = 20, negatives: int = 1, seed: int = 0) -> LogSpec:
    """Comma-separated without a header: user, item, category, behaviour, Unix time.

    Args:
        history: How many earlier items of the user an input keeps at most.
        negatives: How many items that were not the next one to make inputs of, for each event.
        seed: Of the draws of those.
    """
    drawn = ("item", "category")
    return LogSpec(
        format="taobao",
        columns=tuple(Categorical(name, name, name, "int") for name in ("user", *drawn)),
        label_name="click",
        time=Time("time"),
        fields=("user", "item", "category", "behaviour", "time"),
        separator=",",
        sort=True,
        negatives=Negatives(negatives, drawn, seed) if negatives else None,
        history=History("user", history, {"item": "items", "category": "categories"})
        if history
        else None,
    )
