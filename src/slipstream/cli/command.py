"""How commands show their options in `--help`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help shows no type for flags, because they take no value."""

    def get_params(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The options and arguments."""
        params: list[Any] = super().get_params(*args, **kwargs)
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params
