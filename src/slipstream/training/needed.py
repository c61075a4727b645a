"""The rows that the largest batch of a run needs: every batch is looked at for it, once."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.embedding.spec import Layout
from slipstream.ordering import InputOrder
from slipstream.placement.need import Needed, needed_by
from slipstream.skew.popularity import Popularity

_FOUND: WeakKeyDictionary[Dataset, dict[tuple[Layout, int, InputOrder], Needed]] = (
    WeakKeyDictionary()
)


def needed_by_batches(
    layout: Layout, dataset: Dataset, batch_size: int, order: InputOrder
) -> Needed:
    """The most rows that a batch needs.

    What was found is kept as long as the data set is: it is asked for several times before a run
    begins, and all inputs are read for it.

    Args:
        layout: Tables and features.
        dataset: What is trained on.
        batch_size: Inputs of a batch.
        order: In what order they come.
    """
    found, key = _FOUND.setdefault(dataset, {}), (layout, batch_size, order)
    if key not in found:
        singles = [column.name for column in dataset.schema.singles]
        with Loader(dataset.train, batch_size, order=order) as loader:
            popularity = Popularity.of(layout, dataset.counts)
            found[key] = needed_by(layout, singles, popularity, loader)
    return found[key]
