"""Trains click-prediction models whose embedding tables are larger than fast memory.

Example:
    >>> import slipstream
    >>> dataset = slipstream.Dataset.open("clicks")  # doctest: +SKIP
    >>> for batch in slipstream.Loader(dataset.train, 2048):  # doctest: +SKIP
    ...     train_on(batch.dense, batch.ids, batch.labels)
"""

from slipstream.data.batch import Batch, ListBatch
from slipstream.data.build import Lists, from_arrays
from slipstream.data.dataset import Dataset, Part
from slipstream.data.loader import Loader
from slipstream.data.schema import Column, Schema, Table
from slipstream.data.synthetic.synth import Recipe, synthesize
from slipstream.data.tables import from_table
from slipstream.data.verify import verify
from slipstream.errors import ConfigError, DataError, SlipstreamError
from slipstream.ordering import InputOrder
from slipstream.version import __version__

__all__ = [
    "Batch",
    "Column",
    "ConfigError",
    "DataError",
    "Dataset",
    "InputOrder",
    "ListBatch",
    "Lists",
    "Loader",
    "Part",
    "Recipe",
    "Schema",
    "SlipstreamError",
    "Table",
    "__version__",
    "from_arrays",
    "from_table",
    "synthesize",
    "verify",
]
