"""The report as one HTML file that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files as resources

from slipstream.analyze.report.answer import headline, notes
from slipstream.analyze.report.results import Result
from slipstream.analyze.report.runs import RunRecord
from slipstream.analyze.report.settings import RunGroup
from slipstream.analyze.report.svg import Plot, draw
from slipstream.analyze.report.table import SHORT, cells
from slipstream.number_format import compact
from slipstream.version import __version__

_SECTIONS = {"Learning": "auc-", "Skipping": "skip-"}
_FEW = 6  # runs up to which their table is open


@dataclass(frozen=True)
class Chapter:
    """The part of the page about one group of runs."""

    group: RunGroup
    results: Sequence[Result]
    plots: Sequence[Plot]
    remarks: Sequence[str] = ()  # further sentences


def page(chapters: Sequence[Chapter], machine: str = "") -> str:
    """The whole page as HTML, with the name of the machine; the same runs give the same text."""
    points: dict[str, object] = {}
    body = []
    several = len(chapters) > 1
    if several:
        body.append(
            f'<p class="lead">These runs form {len(chapters)} groups that differ in data, model or '
            "optimizer. Only runs of the same group are compared.</p>"
        )
    for number, chapter in enumerate(chapters):
        body.append(_chapter(chapter, f"g{number}-" if several else "", points))
    script, style = _resource("page.js"), _resource("style.css") + _resource("plot.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    data = json.dumps(points, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>slipstream report</title><style>{style}</style></head><body>"
        f"<h1>slipstream report</h1>{''.join(body)}"
        f'<p class="lead">{escape(f"Measured on {machine}. " if machine else "")}'
        f"Written by slipstream {escape(__version__)}.</p>"
        '<div id="tip" role="status" hidden></div>'
        f'<script type="application/json" id="points">{data}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def standalone(plot: Plot) -> str:
    """A plot as an SVG file, in the colours of a light page."""
    light = re.search(r":root \{(.*?)\}", _resource("style.css"), re.DOTALL)
    assert light is not None
    colours = dict(re.findall(r"--(\w+): ([^;]+);", light[1]))
    # Programs that print SVG do not support CSS variables.
    style = re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], _resource("plot.css"))
    style = style.replace('system-ui, -apple-system, "Segoe UI", Roboto', "Helvetica, Arial")
    svg, _ = draw(plot)
    width, height = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups()  # type: ignore[union-attr]
    sized = svg.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    begin, _, rest = sized.partition(">")
    return f'{begin}><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{rest}\n'


def _chapter(chapter: Chapter, prefix: str, points: dict[str, object]) -> str:
    group, results = chapter.group, chapter.results
    parts = [f"<h2 class=group>{escape(group.label)}</h2>"] if group.label else []
    parts.append(f'<p class="answer">{escape(headline(results))}</p>')
    if results:
        parts.append(_table(*cells(results, SHORT)))
    sentences = [*notes(group, results), *chapter.remarks]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    parts.append(f'<ul class="notes">{items}</ul>' if items else "")
    if results:
        rest = [name for name in cells(results)[0] if name not in SHORT[1:]]
        table = _table(*cells(results, rest))
        parts.append(_details("Loss, memory, bytes", table + _LEGEND))
    for heading, names in _SECTIONS.items():
        shown = [plot for plot in chapter.plots if plot.name.startswith(names)]
        if shown:
            figures = "".join(_figure(plot, prefix, points) for plot in shown)
            parts.append(f'<h2>{heading}</h2><div class="plots">{figures}</div>')
    if results:
        parts.append(f"<h2>Time by phase</h2>{_phases(results)}")
    parts.append(_runs(group))
    return "".join(parts)


def _figure(plot: Plot, prefix: str, points: dict[str, object]) -> str:
    svg, own_points = draw(plot)
    name = prefix + plot.name
    points[name] = own_points
    svg = svg.replace(f'data-plot="{plot.name}"', f'data-plot="{name}"', 1)
    return (
        f"<figure><h3>{escape(plot.title)}</h3>{svg}"
        f"<figcaption>{escape(plot.text)}</figcaption></figure>"
    )


def _details(summary: str, content: str, *, shown: bool = False) -> str:
    return f"<details{' open' * shown}><summary>{summary}</summary>{content}</details>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{"" if number else " class=first"} data-name="{escape(name)}">{_cell(cell)}</td>'
            for number, (name, cell) in enumerate(zip(names, row, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="stack"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    value, _, rest = text.partition("\n")
    # One element, so that a narrow page can put it beside the heading.
    return f"<span>{escape(value)}{f'<small>{escape(rest)}</small>' if rest else ''}</span>"


_LEGEND = (
    '<p class="lead">± is half of the 95 % interval, by Student\'s t over the seeds. Changes and '
    "speed-ups are differences from the baseline's run with the same seed. AUC against random: the "
    "AUC less the AUC of skipping the same share of examples at random, on a line through the "
    "runs that do so. Examples/s counts trained and skipped examples after the first report of a "
    "run.</p>"
)


def _phases(results: Sequence[Result]) -> str:
    """A table of the mean seconds of each phase, by setting."""
    runs = [[(run.summary or {})["phase_seconds"] for run in each.setting.runs] for each in results]
    names = list(dict.fromkeys(phase for each in runs for seconds in each for phase in seconds))
    texts = []
    for result, each in zip(results, runs, strict=True):
        means = (sum(seconds.get(name, 0.0) for seconds in each) / len(each) for name in names)
        texts.append([result.label, *(f"{compact(mean)} s" if mean else "" for mean in means)])
    text = "Mean of the runs that have ended. Compiling at the start counts as plan and step."
    return _table(["strategy", *names], texts) + f'<p class="lead">{text}</p>'


def _runs(group: RunGroup) -> str:
    runs = group.runs
    labels = {id(run): s.label for s in group.settings for run in (*s.runs, *s.unfinished)}
    names = ["run", "strategy", "seed", "state", "AUC", "examples/s", "train", "start"]
    rows = [[run.name, labels[id(run)], str(run.seed), *_state(run)] for run in runs]
    versions = [(run.summary or {}).get("versions", {}) for run in runs]
    packages = dict.fromkeys(f"{name} {each[name]}" for each in versions for name in each)
    count = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}"
    return (
        f"<h2>Runs</h2>{_details(count, _table(names, rows), shown=len(runs) <= _FEW)}"
        f'<p class="lead">Trained with {escape("; ".join(packages) or "unknown versions")}. To '
        "repeat a run: <code>slipstream train --config RUN/config.yaml --out NEW</code>.</p>"
    )


def _state(run: RunRecord) -> list[str]:
    rate = "" if run.inputs_per_second is None else compact(run.inputs_per_second)
    if run.summary is None:
        return [f"unfinished, at example {run.position:,}", "", rate, "", ""]
    auc = run.summary.get("auc")
    return [
        "ended",
        "undefined" if auc is None else f"{auc:.4f}",
        rate,
        f"{run.summary['train_seconds']:.1f} s",
        f"{run.start_seconds:.1f} s",
    ]


def _resource(name: str) -> str:
    return (resources("slipstream.analyze.report") / name).read_text(encoding="utf-8")
