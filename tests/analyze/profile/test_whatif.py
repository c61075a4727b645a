"""The counts of the planner, beside a simulation that knows nothing of slots."""

from batch_rows import rows_of_batches
from hypothesis import given
from hypothesis import strategies as st
from small_runs import clicks, config

from slipstream.analyze.profile.whatif import COMPARED, BatchSample, plan_outcome
from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import divide_among, least_bytes
from slipstream.pipeline.place.working_set import count_working_set
from slipstream.pipeline.strategies import PLACEMENTS
from slipstream.training.build import model_of

BATCH = 8


def _sample(n, seed, model="dlrm", batches=1000):
    dataset = clicks(n, seed=seed)
    deepfm = Config().with_settings(["model.name=deepfm", "model.dim=2", "model.deep=[4]"])
    layout = model_of(config() if model == "dlrm" else deepfm, dataset).layout
    with Loader(dataset.train, BATCH) as loader:
        draws = [batch for batch, _ in zip(loader, range(batches), strict=False)]
    singles = [column.name for column in dataset.schema.singles]
    rows = Popularity.of(layout, dataset.counts)
    needed = count_working_set(layout, singles, draws)
    return dataset, BatchSample(layout, singles, draws, needed), rows


def _simulated(sample, tier_sizes, window):
    """Rows copied in over the counted batches: sets of rows and nothing else."""
    rows = rows_of_batches(sample.layout, sample.singles, sample.batches)
    needs = [[set(group[b].tolist()) for group in rows] for b in range(len(sample.batches))]
    kept_rows = [set(tier_size.keep.tolist()) for tier_size in tier_sizes]
    free = [tier_size.slots - len(tier_size.keep) for tier_size in tier_sizes]
    inside = [set(keep) for keep in kept_rows]
    copied = end = 0
    for now in range(len(needs)):
        while end < min(len(needs), now + window):
            wanted = [
                set().union(*(needs[b][g] for b in range(now, end + 1))) - kept_rows[g]
                for g in range(len(tier_sizes))
            ]
            if any(len(some) > tier_size for some, tier_size in zip(wanted, free, strict=True)):
                break
            end += 1
        assert end > now, "a batch did not fit"
        for g in range(len(tier_sizes)):
            copied += len(needs[now][g] - inside[g]) * (now in sample.counted)
            later = set().union(*(needs[b][g] for b in range(now + 1, end)))
            inside[g] |= needs[now][g]
            inside[g] -= needs[now][g] - later - kept_rows[g]
    return copied


@given(
    st.integers(1, 300),
    st.integers(0, 5),
    st.sampled_from(["dlrm", "deepfm"]),
    st.sampled_from(COMPARED),
    st.integers(1, 12),
    st.floats(0.2, 1),
)
def test_the_hits_of_the_planner_are_those_of_a_plain_simulation(n, seed, model, kind, window, of):
    dataset, sample, rows = _sample(n, seed, model)
    examples, budget = len(dataset.train), round(rows.bytes * of)
    outcome = plan_outcome(sample, rows, examples, kind, budget, batch_size=BATCH, window=window)
    if outcome.oversized_batches or budget < least_bytes(rows.sizes, sample.needed.largest):
        return
    tier = PLACEMENTS[kind]
    window = window if tier.window > 1 else 1
    tier_sizes = divide_among(
        rows, examples, budget, keep=tier.keep, window_inputs=BATCH * window, needed=sample.needed
    )
    if not tier.refresh:
        assert outcome.rows_in == _simulated(sample, tier_sizes, window)


def test_all_rows_in_fast_memory_need_nothing_copied_once_they_are_there():
    dataset, sample, rows = _sample(300, 0)
    for kind in ("popular", "popular+lookahead"):
        outcome = plan_outcome(sample, rows, len(dataset.train), kind, rows.bytes, batch_size=BATCH)
        assert (outcome.hit_rate, outcome.bytes_per_input) == (1, 0)


def test_a_sample_of_one_batch_is_counted():
    _, sample, _ = _sample(5, 0)
    assert sample.counted == range(0, 1)


def test_a_longer_window_never_brings_more_rows():
    dataset, sample, rows = _sample(300, 0)
    copied = [
        plan_outcome(
            sample,
            rows,
            len(dataset.train),
            "lookahead",
            rows.bytes,
            batch_size=BATCH,
            window=window,
        ).rows_in
        for window in (1, 3, 9)
    ]
    assert copied == sorted(copied, reverse=True)
    assert copied[0] > copied[-1]
