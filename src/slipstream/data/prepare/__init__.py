"""From raw logs to a packed data set, in bounded memory, resumable, with nothing lost."""

from slipstream.data.prepare.options import Options
from slipstream.data.prepare.run import prepare

__all__ = ["Options", "prepare"]
