"""Adds the examples, to which pages of docs/ link, to the documentation site."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the examples to the site."""
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            name = f"examples/{path.name}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Rewrite links to examples: they leave `docs/` in the repository, but not on the site."""
    return re.sub(r"\]\(\.\./examples/", "](examples/", markdown)
