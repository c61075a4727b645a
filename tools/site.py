"""What the documentation needs as a site: files beside `docs/` that its pages link to."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the examples into the site."""
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            name = f"examples/{path.name}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links lead out of `docs/` in the repository, and stay within the site here."""
    return re.sub(r"\]\(\.\./examples/", "](examples/", markdown)
