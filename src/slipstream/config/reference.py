"""The reference of all keys, made from the sections themselves.

`python -m slipstream.config.reference docs/config.md` brings the page up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

from slipstream.config.config import Config
from slipstream.config.keys import Section, allowed, default_of, keys_of, section_of, without_none
from slipstream.config.skip import Skip, read_by

BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def table() -> str:
    """All keys with what they may be, their defaults and meanings, as a Markdown table."""
    rows = ["| key | what it may be | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*rows, *_rows(Config, "")])


def with_table(page: str) -> str:
    """A page with the table between its two markers brought up to date."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def _rows(section: type[Section], where: str) -> Iterator[str]:
    from slipstream.config import files

    for one, hint in keys_of(section):
        meaning, inner = one.metadata["meaning"], section_of(hint)
        path = f"{where}{one.name}"
        if get_origin(hint) is dict and inner is not None:
            yield from _rows(inner, f"{path}.NAME.")
        elif inner is not None and without_none(hint) is hint:
            yield from _rows(inner, f"{path}.")
        elif one.name == section.REST:
            yield f"| `{where}KEY` | as the model says | | {meaning.text} |"
        else:
            default = default_of(one)
            value = list(default) if isinstance(default, tuple) else default
            text = files.dump({"": value}).partition(":")[2].strip() if value != "" else ""
            shown = f"`{text}`" if text else ""
            rules = read_by(one.name) if section is Skip else ""
            meant = f"({rules}) {meaning.text}" if rules else meaning.text
            yield f"| `{path}` | {allowed(hint, meaning)} | {shown} | {meant} |"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8")), encoding="utf-8")
