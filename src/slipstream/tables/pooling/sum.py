"""The sum of a list's rows."""

from slipstream.tables.pooling.pooling import divided_sum

POOLING = divided_sum()
