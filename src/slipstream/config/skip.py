"""The keys about skipping: which inputs are trained."""

# ruff: noqa: RUF009 - `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from slipstream.config.keys import Section, default_of, key, keys_of, shown

# The same names as in `skipping/rules/`, which takes seconds to import; a test compares them.
RuleName = Literal[
    "none",
    "published",
    "random",
    "movement",
    "value",
    "thin",
    "case-control",
    "freeze",
]
RULES: tuple[str, ...] = tuple(name for name in get_args(RuleName) if name != "none")
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


@dataclass(frozen=True)
class Skip(Section):
    """Which inputs are trained."""

    WHERE: ClassVar[str] = "skip"

    rule: RuleName | None = key(None, "Which inputs are skipped; null is as the strategy says")
    target: float = key(
        0.3, "Share of inputs to skip; published: of hot inputs (0.3)", least=0, below=1
    )
    shares: tuple[float, ...] = key(
        (),
        "Instead of target: the share that each decision in turn asks for; the last one stays",
        least=0,
        below=1,
    )
    warmup: float | None = key(
        None,
        "Share of an epoch that is trained before the first decision; null is 0.1. published: of "
        "hot batches; null is 0.05 for tbsm, else 0.03",
        least=0,
        most=1,
    )
    warmup_batches: int = key(1000, "Hot batches before snapshot A (1000)", least=0)
    interval: float = key(0.05, "Share of an epoch from one decision to the next", above=0, most=1)
    repeat: bool | None = key(
        None, "Decide anew every interval; null does, but for published, which decides once"
    )
    lag: int | None = key(
        None,
        "Batches from a decision to its effect; null is as many as are read ahead, which are more "
        "in long runs on a GPU",
        least=1,
    )
    sample_inputs: int = key(8192, "Inputs to come on which a threshold is searched", least=1)
    sample_share: float = key(
        0.001,
        "The share of the hot inputs to come on which it is searched (0.001)",
        above=0,
        most=1,
    )
    tolerance: float | None = key(
        None,
        "How far the share may be from the target; null is 0.02 for tbsm, else 0.08",
        least=0,
        most=1,
    )
    most_movement: float = key(0.1, "The largest threshold of movement (0.1)", above=0)
    rounds: int = key(25, "Most rounds of the search (25)", least=1)
    hot_memory: str = key(
        "256MiB",
        "What hot rows may take, 4 bytes an element: bytes, or a share of all rows (256 MiB)",
        pattern=r"[0-9]+(\.[0-9]+)?\s*(%|[kKmMgGtT]?(i?[bB])?)",
        allowed="a size such as 256MiB, or a share such as 5%",
    )
    hot_sample: float = key(
        0.05,
        "Share of inputs, drawn with replacement, that says which rows are hot (0.05)",
        above=0,
    )
    h_f: int | None = key(
        None, "Accesses in that sample from which a row may be hot; null is 1", least=1
    )
    h_t: float | None = key(
        None, "The movement below which a row is stale; null searches it", above=0
    )
    h_c: int | None = key(
        None,
        "Tables of an input that must be stale; null is all (26 of 26)",
        least=1,
    )
    h_c_list: int | None = key(
        None,
        "Rows that must be stale where an input accesses several of a table; null is 4 "
        "for tbsm, else all",
        least=1,
    )
    least_touches: int = key(
        20, "Touches since the last snapshot from which a row is judged", least=1
    )
    explore: float | None = key(
        None,
        "Share of the inputs to be skipped that is trained all the same; null is 0.02 for movement "
        "and value, else 0",
        least=0,
        below=1,
    )
    keep_negatives: float | None = key(
        None,
        "The chance with which a negative is trained; null is the one that skips the target",
        least=0.01,
        most=1,
    )
    hot_only: bool = key(False, "Skip examples of which all rows are hot, and no others")
    smoothing: float = key(
        20.0, "Accesses of the common click rate that each row has added", above=0
    )

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
        for one, _ in keys_of(type(self)):
            value, readers = getattr(self, one.name), READ_BY.get(one.name, RULES)
            by_ordering = ordering == "cold-first" and one.name in _BY_ORDERING
            if one.name in ("rule", "lag") or value == default_of(one) or by_ordering:
                continue
            begun = f"skip.{one.name} is {shown(value)}, but "
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
