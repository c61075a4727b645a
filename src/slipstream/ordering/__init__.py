"""In what order inputs come."""

from slipstream.ordering.batching import Cut, into_batches
from slipstream.ordering.order import Chunk, InputOrder

__all__ = ["Chunk", "Cut", "InputOrder", "into_batches"]
