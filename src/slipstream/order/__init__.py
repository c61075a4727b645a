"""The order of examples: it knows only their numbers, and reads no data."""

from slipstream.order.apart import SEGMENT, Apart, Rates
from slipstream.order.batching import Chunk, Cut, Order, as_array, check_share, into_batches, joined
from slipstream.order.order import InputOrder, example_number

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
