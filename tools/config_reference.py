"""The reference of all keys, made from the sections themselves.

`python tools/config_reference.py docs/config.md` brings the page up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from slipstream.config import files
from slipstream.config.config import Config
from slipstream.config.section import Key, Settings, join, keys_of

BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def reference() -> str:
    """All keys by section, with their meanings, allowed values and defaults, in Markdown."""
    whole = "\n".join(["### The run as a whole", "", *_table(Config, "")])
    return "\n\n".join([whole, *_sections(Config, "")])


def with_reference(page: str) -> str:
    """A page with the text between its two markers brought up to date."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


def _sections(section: type[Settings], place: str) -> Iterator[str]:
    for name, key in keys_of(section).items():
        if key.section is not None:
            path = join(place, name, "NAME" if key.several else "")
            heading = [f"### `{path}`", "", key.section.__doc__ or "", ""]
            yield "\n".join([*heading, *_table(key.section, path)])
            yield from _sections(key.section, path)


def _table(section: type[Settings], place: str) -> Iterator[str]:
    yield "| key | meaning | allowed | default |"
    yield "|---|---|---|---|"
    for name, key in keys_of(section).items():
        if key.section is not None:
            continue
        path = join(place, "KEY" if name == section.REST else name)
        meaning = key.meaning.replace("|", "\\|")
        yield f"| `{path}` | {meaning} | {key.allowed} | {_default(key)} |"


def _default(key: Key) -> str:
    if key.default in ("", {}):
        return ""
    value = list(key.default) if isinstance(key.default, tuple) else key.default
    return f"`{files.dump({'': value}).partition(':')[2].strip()}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(with_reference(file.read_text(encoding="utf-8")), encoding="utf-8")
