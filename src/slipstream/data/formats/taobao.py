"""Taobao UserBehavior: each event is a click on the next item of its user."""

from __future__ import annotations

from slipstream.data.formats.spec import Categorical, History, LogSpec, Negatives, Time


def taobao(history: int = 20, negatives: int = 1, seed: int = 0) -> LogSpec:
    """Comma-separated without a header: user, item, category, behaviour, Unix time.

    Args:
        history: How many earlier items of the user an example keeps at most.
        negatives: For each event, how many examples with another item to add.
        seed: Seed of the drawn items.
    """
    drawn, names = ("item", "category"), {"item": "items", "category": "categories"}
    return LogSpec(
        format="taobao",
        columns=tuple(Categorical(name, name, name, "int") for name in ("user", *drawn)),
        label_name="click",
        time=Time("time"),
        fields=("user", "item", "category", "behaviour", "time"),
        separator=",",
        sort=True,
        negatives=Negatives(negatives, drawn, seed) if negatives else None,
        history=History("user", history, names) if history else None,
    )
