"""The keys about skipping: which inputs are trained."""

# ruff: noqa: RUF009 - `key` makes a field, as `dataclasses.field` does
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from slipstream.config.keys import Section, key

# The same names as in `skipping/rules/`, which takes seconds to import; a test compares them.
RuleName = Literal[
    "none",
    "published",
    "random",
    "random-hot",
    "movement",
    "value",
    "thin",
    "case-control",
    "value-case-control",
    "freeze",
]


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
    warmup_batches: int = key(1000, "published: hot batches before snapshot A (1000)", least=0)
    interval: float = key(0.05, "Share of an epoch from one decision to the next", above=0, most=1)
    repeat: bool | None = key(
        None, "Decide anew every interval; null does, but for published, which decides once"
    )
    lag: int | None = key(
        None, "Batches from a decision to its effect; null is as many as are read ahead", least=1
    )
    sample_inputs: int = key(8192, "Inputs to come on which a threshold is searched", least=1)
    sample_share: float = key(
        0.001, "published: the share of the hot inputs to come instead (0.001)", above=0, most=1
    )
    tolerance: float | None = key(
        None,
        "published: how far the share may be from the target; null is 0.02 for tbsm, else 0.08",
        least=0,
        most=1,
    )
    most_movement: float = key(0.1, "published: the largest threshold of movement (0.1)", above=0)
    rounds: int = key(25, "published: most rounds of the search (25)", least=1)
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
        None, "published: the movement below which a row is stale; null searches it", above=0
    )
    h_c: int | None = key(
        None,
        "published, movement: tables of an input that must be stale; null is all (26 of 26)",
        least=1,
    )
    h_c_list: int | None = key(
        None,
        "published: rows that must be stale where an input accesses several of a table; null is 4 "
        "for tbsm, else all",
        least=1,
    )
    least_touches: int = key(
        20, "movement, freeze: touches since the last snapshot from which a row is judged", least=1
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
        "thin: the chance with which a negative is trained; null is the one that skips the target",
        least=0.01,
        most=1,
    )
    guard: bool | None = key(
        None,
        "Look at some of the skipped inputs, and train all when they change; null does, but for "
        "published and freeze, and where shares are given",
    )
    guard_window: float = key(
        0.005, "Share of an epoch after which the guard looks", above=0, most=1
    )
    audit_inputs: int = key(
        512, "Most skipped inputs that the guard scores each time, without training them", least=1
    )
    max_auc_loss: float | None = key(
        None,
        "Skip only as much as paired pilots show to cost no more AUC than that, instead of target; "
        "null runs none",
        above=0,
    )
    pilot_share: float = key(
        0.25,
        "Share of the run's inputs that all pilots together go through at most",
        above=0,
        most=1,
    )
    smoothing: float = key(
        20.0, "case-control: accesses of the common click rate that each row has added", above=0
    )
