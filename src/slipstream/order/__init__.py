"""The order of examples: it knows only their numbers, and reads no data."""

from slipstream.order.apart import SEGMENT, Apart
from slipstream.order.batching import Chunk, Cut, as_array, check_share, into_batches, joined
from slipstream.order.order import InputOrder, example_number
from slipstream.order.protocol import Order
from slipstream.order.scheduler import Rates

__all__ = [
    "SEGMENT",
    "Apart",
    "Chunk",
    "Cut",
    "InputOrder",
    "Order",
    "Rates",
    "as_array",
    "check_share",
    "example_number",
    "into_batches",
    "joined",
]
