"""In what order inputs come."""

from slipstream.ordering.batching import Cut, check_share, into_batches
from slipstream.ordering.order import Chunk, InputOrder

__all__ = ["Chunk", "Cut", "InputOrder", "check_share", "into_batches"]
