"""Every code block in README and docs/ runs, and so does every example in a docstring."""

import doctest
import importlib
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from in_process import run

import slipstream

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(r"^\$ (slipstream.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
REGISTRIES = (
    ("slipstream.models", "MODELS"),
    ("slipstream.data.formats", "FORMATS"),
    ("slipstream.data.schema", "POOLING_NAMES"),
    ("slipstream.tables.pooling", "POOLINGS"),
    ("slipstream.tables.optimizers", "OPTIMIZERS"),
    ("slipstream.training.metrics", "METRICS"),
    ("slipstream.training.trackers", "TRACKERS"),
)
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def _registries():
    """What a page adds to a registry is gone after its test."""
    registries = [getattr(importlib.import_module(place), name) for place, name in REGISTRIES]
    before = [registry.copy() for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        (registry.update if isinstance(registry, dict) else registry.extend)(entries)


@pytest.mark.usefixtures("_registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, object] = {"__name__": "__main__"}
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(code, f"{page.name}", "exec"), names)
            continue
        for command, shown in COMMAND.findall(code):
            printed = output_of(command)
            if shown.strip():
                options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                same = doctest.OutputChecker().check_output(shown, printed, options)
                assert same, f"{page.name} shows\n{shown}\nbut {command} prints\n{printed}"


def output_of(command: str) -> str:
    """The output of a command; run in this process, unless it needs a shell, to save seconds."""
    if re.search(r"[|<>&;*?$`\\]", command):
        environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(
            command, shell=True, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout
    done = run(*shlex.split(command)[1:])
    assert done.exit_code == 0, f"{command} ended with {done.exit_code}\n{done.output}"
    return done.stdout


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def word_count(page):
    return sum(any(map(str.isalnum, word)) for word in page.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_at_most_900_words(page):
    assert word_count(page) <= 900 or page.name == "config.md"


def test_all_pages_together_have_at_most_15000_words():
    pages = [page for page in PAGES if page.name not in {"README.md", "config.md"}]
    assert sum(map(word_count, pages)) <= 15_000


def test_every_file_on_the_map_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"[\w/.-]+/(?:[\w.-]+\.py)?", text))
    folders = (ROOT, ROOT / "src" / "slipstream")
    missing = [path for path in paths if not any((folder / path).exists() for folder in folders)]
    assert missing == []


@pytest.mark.needs("mkdocs")
def test_the_site_is_built_without_a_warning(tmp_path):
    # Not quietly: mkdocs counts only the warnings that it shows.
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "compare.html").is_file()


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A folder with the data set `clicks`, and the names that docstring examples may use."""
    folder = tmp_path_factory.mktemp("example")
    clicks = slipstream.synthesize(slipstream.Recipe(rows=2000), folder / "clicks")
    dataset = slipstream.Dataset.open(clicks)
    frame = pl.DataFrame({"click": [0, 1], "user": ["a", "b"], "ad": [3, 4]})
    return folder, {"dataset": dataset, "frame": frame, "slipstream": slipstream, "np": np}


MODULES = [
    module.name
    for module in pkgutil.walk_packages(slipstream.__path__, "slipstream.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name, example, monkeypatch):
    folder, names = example
    monkeypatch.chdir(folder)
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs=names).failed == 0
