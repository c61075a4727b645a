"""Names, phrases and file lengths that make code and pages hard to read are refused.

`python tests/test_style.py FOLDER...` lists everything that a folder has to change.
"""

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("src", "tests", "benchmarks", "tools", "examples")
MOST_LINES = 400

# Reason and words: none of them may name a variable, argument, field, function, class or module.
WORDS = {
    "a participle without its noun": "made found said heard told asked held lent given taken kept "
    "gone drawn taken_over found_out",
    "a pronoun": "one ones which whose what whatever who whoever whom something anything mine "
    "ours theirs",
    "a placeholder": "thing things stuff tmp temp foo",
    "an adverb or a preposition": "aside near",
    "a verb of speech, where data is passed on": "tell tells hear hears say says asks",
}
REASONS = {word: reason for reason, words in WORDS.items() for word in words.split()}

# Phrase and its plain replacement, in comments, docstrings, messages and pages.
PHRASES = {
    r"who asks|whoever": "the name of the caller or part that does it",
    r"what (?:it|they|he) gives?": "the name of the result",
    r"what (?:it|they) says?": "the name of the result",
    r"(?:is|are|was|were) told": "'receives', 'is refused' or 'is reported'",
    r"(?:has|have|had) said": "'has returned' or 'has reported'",
    r"says? which": "'names' or 'lists'",
    r"(?:is|are|was|were) asked for": "'is needed' or 'is requested'",
    r"what came out": "'the result'",
    r"found out": "'computed' or 'measured'",
    r"to be had": "'available'",
    r"reckon\w*": "'compute' or 'estimate'",
}
# A phrase may go on in the next line of a comment.
PHRASE = {
    re.compile(rf"\b(?:{phrase})\b".replace(" ", r"[\s#]+"), re.I): plain
    for phrase, plain in PHRASES.items()
}

# These folders are rewritten as a whole later.
REWRITTEN_LATER = (
    "tests/gpu",
    "src/slipstream/data/prepare",
    "tests/data/prepare",
)

# Folders that still have to be cleaned. Remove a folder's line when it is clean; never add one.
TO_CLEAN = {
    "benchmarks",
    "src/slipstream/data/formats",
    "src/slipstream/tables",
    "src/slipstream/tables/kernels",
    "tests/tables",
    "tests/tools",
}


class Problem(NamedTuple):
    """One place and what to change there."""

    folder: str
    text: str


@cache
def code_files() -> list[Path]:
    return [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def problem_at(path: Path, line: int, text: str) -> Problem:
    place = path.relative_to(ROOT)
    return Problem(place.parent.as_posix(), f"{place}:{line}: {text}")


def is_checked(folder: str) -> bool:
    later = any(Path(folder).is_relative_to(parent) for parent in REWRITTEN_LATER)
    return folder not in TO_CLEAN and not later


def names_in(tree: ast.AST):
    """Every name that the code binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.ExceptHandler):
            yield node.lineno, node.name or ""
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, name.asname or "") for name in node.names)


def empty_names() -> list[Problem]:
    return [
        problem_at(path, line, f"`{name}` names nothing ({reason}): use the noun for what it holds")
        for path in code_files()
        for line, name in ((1, path.stem), *names_in(syntax_tree(path)))
        if (reason := REASONS.get(name.strip("_").lower()))
    ]


def repeated_classes() -> list[Problem]:
    places = defaultdict(list)
    for path in code_files():
        if path.is_relative_to(ROOT / "src"):
            for node in syntax_tree(path).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append((path, node.lineno))
    return [
        problem_at(path, line, f"class {name} exists {len(same)} times: rename all but the best")
        for name, same in places.items()
        for path, line in same
        if len(same) > 1
    ]


def long_files() -> list[Problem]:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in code_files()}
    return [
        problem_at(path, length, f"{length} lines, at most {MOST_LINES}: split it by thought")
        for path, length in lengths.items()
        if length > MOST_LINES
    ]


def banned_phrases() -> list[Problem]:
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    problems = []
    for path in (*pages, *code_files()):
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for phrase, plain in PHRASE.items():
            for match in phrase.finditer(text):
                words = " ".join(match[0].split())
                line = text.count("\n", 0, match.start()) + 1
                problems.append(problem_at(path, line, f"'{words}': write {plain}"))
    return problems


CHECKS = (empty_names, repeated_classes, long_files, banned_phrases)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_nothing_makes_the_code_hard_to_read(check):
    problems = [problem.text for problem in check() if is_checked(problem.folder)]
    assert not problems, "\n" + "\n".join(problems)


def main(folders: list[str]) -> None:
    """Print what the folders have to change, or without a folder which ones have anything."""
    problems = [problem for check in CHECKS for problem in check()]
    if not folders:
        print("\n".join(sorted({problem.folder for problem in problems})))
    for problem in problems:
        if any(problem.text.startswith(folder.strip("/")) for folder in folders):
            print(problem.text)


if __name__ == "__main__":
    main(sys.argv[1:])
