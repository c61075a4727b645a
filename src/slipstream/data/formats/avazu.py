"""Avazu: the file of the Kaggle contest."""

from __future__ import annotations

from slipstream.data.formats.spec import Categorical, LogSpec, Time, Values

_HEX = (
    *("site_id", "site_domain", "site_category", "app_id", "app_domain", "app_category"),
    *("device_id", "device_ip", "device_model"),
)
_HEADER = (
    *("id", "click", "hour", "C1", "banner_pos", *_HEX, "device_type", "device_conn_type"),
    *(f"C{number}" for number in range(14, 22)),
)


def avazu() -> LogSpec:
    """Comma-separated with a header; `hour` gives the time (YYMMDDHH) and the hour of the day."""

    def values(name: str) -> Values:
        return "hour" if name == "hour" else "hex" if name in _HEX else "int"

    return LogSpec(
        format="avazu",
        label="click",
        label_name="click",
        columns=tuple(Categorical(name, name, name, values(name)) for name in _HEADER[2:]),
        time=Time("hour", "%y%m%d%H"),
        header=_HEADER,
        separator=",",
    )
