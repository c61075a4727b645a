"""The raw formats: each has a file and a line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

from slipstream.data.formats.avazu import avazu
from slipstream.data.formats.criteo import criteo
from slipstream.data.formats.spec import LogSpec
from slipstream.data.formats.table import table
from slipstream.data.formats.taobao import taobao
from slipstream.errors import ConfigError, did_you_mean

FORMATS: dict[str, Callable[..., LogSpec]] = {
    "criteo": criteo,
    "avazu": avazu,
    "taobao": taobao,
    "table": table,
}
_WHAT = {
    "schema": " FILE, a YAML file that says which columns are what: label: clicked, categorical: "
    "[user, ad], dense: [price], time: when, each on a line of its own. See "
    "docs/bring-your-own-data.md."
}


def log_spec(name: str, options: Mapping[str, Any]) -> LogSpec:
    """The description of a log of that format.

    Args:
        name: One of `FORMATS`.
        options: The options of this format; None is the default.

    Example:
        >>> log_spec("criteo", {}).columns[0].name
        'C1'
    """
    if name not in FORMATS:
        raise ConfigError(f"There is no format {name!r}.{did_you_mean(name, FORMATS)}")
    chosen = {option: value for option, value in options.items() if value is not None}
    parameters = signature(FORMATS[name]).parameters
    for option in chosen:
        if option not in parameters:
            formats = [f for f, make in FORMATS.items() if option in signature(make).parameters]
            only, flag = " and ".join(formats) or "no", option.replace("_", "-")
            raise ConfigError(f"--{flag} is not for {name} logs, only for {only} logs.")
    needed = [p for p, kind in parameters.items() if kind.default is kind.empty and p not in chosen]
    if needed:
        option = needed[0].replace("_", "-")
        raise ConfigError(f"A log of format {name} needs --{option}{_WHAT.get(option, '.')}")
    return FORMATS[name](**chosen)
