"""The rows that each batch needs, found without a planner of tiers."""

from slipstream.tables.no_cache import NoCache


def rows_of_batches(layout, singles, batches):
    """For each group the distinct rows of each batch."""
    resident = NoCache(layout, singles)
    plans = [resident.plan(batch.ids, batch.lists, batch.n_valid) for batch in batches]
    return [
        [plan[number].touched.rows.numpy() for plan in plans]
        for number in range(len(layout.groups))
    ]
