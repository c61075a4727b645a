"""The keys about skipping: which inputs are trained."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from slipstream.config.kinds import (
    Amount,
    Count,
    Fraction,
    Portion,
    Positive,
    Proportion,
    Size,
    about,
)
from slipstream.config.section import Section, keys_of, shown

RULES = (
    "published",
    "random",
    "movement",
    "value",
    "thin",
    "case-control",
    "freeze",
)
_HOT = ("published", "random", "movement", "freeze")

READ_BY: dict[str, tuple[str, ...]] = {
    "warmup_batches": ("published",),
    "sample_inputs": tuple(name for name in RULES if name != "published"),
    "sample_share": ("published",),
    "tolerance": ("published",),
    "most_movement": ("published",),
    "rounds": ("published",),
    "hot_memory": _HOT,
    "hot_sample": _HOT,
    "h_f": _HOT,
    "h_t": ("published",),
    "h_c": ("published", "movement"),
    "h_c_list": ("published",),
    "least_touches": ("movement", "freeze"),
    "explore": ("published", "random", "movement", "value"),
    "hot_only": ("random",),
    "keep_negatives": ("thin",),
    "smoothing": ("case-control",),
}
"""The rules that read a key; a key that is not here is read by all of them."""
_BY_ORDERING = ("hot_memory", "hot_sample", "h_f")
"""Keys that cold-first reads too, whatever the rule."""


class Skip(Section, frozen=True, kw_only=True):
    """Which examples are trained."""

    PLACE: ClassVar[str] = "skip"

    rule: Annotated[
        str | None,
        about(
            "Which inputs are skipped; null is as the strategy says",
            registry="slipstream.skip.rules:NAMES",
        ),
    ] = None
    target: Annotated[Portion, about("Share of inputs to skip; published: of hot inputs (0.3)")] = (
        0.3
    )
    shares: Annotated[
        tuple[Portion, ...],
        about(
            "Instead of target: the share that each decision in turn asks for; the last one stays"
        ),
    ] = ()
    warmup: Annotated[
        Proportion | None,
        about(
            "Share of an epoch that is trained before the first decision; null is 0.1. published: of hot batches; null is 0.05 for tbsm, else 0.03"
        ),
    ] = None
    warmup_batches: Annotated[Amount, about("Hot batches before snapshot A (1000)")] = 1000
    interval: Annotated[Fraction, about("Share of an epoch from one decision to the next")] = 0.05
    repeat: Annotated[
        bool | None,
        about("Decide anew every interval; null does, but for published, which decides once"),
    ] = None
    lag: Annotated[
        Count | None,
        about(
            "Batches from a decision to its effect; null is as many as are read ahead, which are more in long runs on a GPU"
        ),
    ] = None
    sample_inputs: Annotated[Count, about("Inputs to come on which a threshold is searched")] = 8192
    sample_share: Annotated[
        Fraction, about("The share of the hot inputs to come on which it is searched (0.001)")
    ] = 0.001
    tolerance: Annotated[
        Proportion | None,
        about("How far the share may be from the target; null is 0.02 for tbsm, else 0.08"),
    ] = None
    most_movement: Annotated[Positive, about("The largest threshold of movement (0.1)")] = 0.1
    rounds: Annotated[Count, about("Most rounds of the search (25)")] = 25
    hot_memory: Annotated[
        Size,
        about(
            "What hot rows may take, 4 bytes an element: bytes, or a share of all rows (256 MiB)",
            "a size such as 256MiB, or a share such as 5%",
        ),
    ] = "256MiB"
    hot_sample: Annotated[
        Positive,
        about("Share of inputs, drawn with replacement, that says which rows are hot (0.05)"),
    ] = 0.05
    h_f: Annotated[
        Count | None, about("Accesses in that sample from which a row may be hot; null is 1")
    ] = None
    h_t: Annotated[
        Positive | None, about("The movement below which a row is stale; null searches it")
    ] = None
    h_c: Annotated[
        Count | None, about("Tables of an input that must be stale; null is all (26 of 26)")
    ] = None
    h_c_list: Annotated[
        Count | None,
        about(
            "Rows that must be stale where an input accesses several of a table; null is 4 for tbsm, else all"
        ),
    ] = None
    least_touches: Annotated[
        Count, about("Touches since the last snapshot from which a row is judged")
    ] = 20
    explore: Annotated[
        Portion | None,
        about(
            "Share of the inputs to be skipped that is trained all the same; null is 0.02 for movement and value, else 0"
        ),
    ] = None
    keep_negatives: Annotated[
        Annotated[float, Meta(ge=0.01, le=1)] | None,
        about("The chance with which a negative is trained; null is the one that skips the target"),
    ] = None
    hot_only: Annotated[
        bool, about("Whether to skip examples of which all rows are hot, and no others")
    ] = False
    smoothing: Annotated[
        Positive, about("Accesses of the common click rate that each row has added")
    ] = 20.0

    def unread(self, rule: str, ordering: str = "as-is") -> list[str]:
        """A sentence for each key that is set and that nothing reads.

        Args:
            rule: The rule that is chosen, or none.
            ordering: The ordering that is.

        Example:
            >>> Skip(h_t=0.1, target=0.2).unread("value")
            ['skip.h_t is 0.1, but the rule value does not read it; published does.']
        """
        said = []
        for name, key in keys_of(type(self)).items():
            value, readers = getattr(self, name), READ_BY.get(name, RULES)
            by_ordering = ordering == "cold-first" and name in _BY_ORDERING
            if name in ("rule", "lag") or value == key.default or by_ordering:
                continue
            begun = f"skip.{name} is {shown(value)}, but "
            if rule == "none":
                said.append(f"{begun}nothing is skipped: choose a rule (--skip), or leave it out.")
            elif rule not in readers:
                do = "does" if len(readers) == 1 else "do"
                said.append(f"{begun}the rule {rule} does not read it; {_listed(readers)} {do}.")
        return said


def read_by(name: str) -> str:
    """Which rules read a key, for a page; nothing where all do.

    Example:
        >>> read_by("h_c"), read_by("sample_inputs"), read_by("target")
        ('published, movement', 'all but published', '')
    """
    readers = READ_BY.get(name, RULES)
    others = [rule for rule in RULES if rule not in readers]
    return (
        f"all but {', '.join(others)}" if len(others) == 1 else ", ".join(readers) if others else ""
    )


def _listed(names: tuple[str, ...]) -> str:
    """Names as a sentence has them."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
