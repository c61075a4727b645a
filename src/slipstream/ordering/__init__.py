"""In what order inputs come."""

from slipstream.ordering.apart import Apart
from slipstream.ordering.batching import Chunk, Cut, as_array, check_share, into_batches, joined
from slipstream.ordering.order import InputOrder
from slipstream.ordering.protocol import Order
from slipstream.ordering.scheduler import Rates

__all__ = [
    "Apart",
    "Chunk",
    "Cut",
    "InputOrder",
    "Order",
    "Rates",
    "as_array",
    "check_share",
    "into_batches",
    "joined",
]
