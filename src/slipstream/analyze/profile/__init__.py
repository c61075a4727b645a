"""How unevenly rows are accessed."""

from slipstream.analyze.profile.curve import access_curve, pooled, top_share

__all__ = ["access_curve", "pooled", "top_share"]
