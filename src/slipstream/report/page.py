"""The page: one file that needs no other, and no network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files as resources

from slipstream.number_format import compact
from slipstream.report.answer import headline, notes
from slipstream.report.repeat import command, shared_config, versions
from slipstream.report.results import Result
from slipstream.report.runs import RunRecord
from slipstream.report.skipped import NAMES, skipped_table
from slipstream.report.svg import Plot, draw
from slipstream.report.table import SHORT, cells
from slipstream.report.variants import Setting
from slipstream.version import __version__

_SECTIONS = (
    ("Learning", "", ("auc-", "logloss-")),
    ("Where the time goes", "", ("phases",)),
    ("Skipping", "", ("skip-", "movement")),
    ("Memory and bytes moved", "", ("memory", "moved")),
    ("Access skew", "", ("access", "coverage")),
)
_FEW = 6  # runs that are listed without being asked


@dataclass(frozen=True)
class Chapter:
    """All there is to say about one setting.

    Args:
        setting: Its runs.
        results: What they reached.
        plots: Its pictures.
        remarks: Sentences about what could not be shown.
    """

    setting: Setting
    results: Sequence[Result]
    plots: Sequence[Plot]
    remarks: Sequence[str] = field(default_factory=tuple)


def page(chapters: Sequence[Chapter], machine: str = "") -> str:
    """The whole page as HTML; the same runs give the same text.

    Args:
        chapters: One for each setting.
        machine: Where the runs were made, where that is known.
    """
    points: dict[str, object] = {}
    body, title = [], "slipstream report"
    several = len(chapters) > 1
    if several:
        body.append(
            f'<p class="lead">These runs have {len(chapters)} settings: different data, models or '
            "ways to learn. Each is compared within itself, and none with another.</p>"
        )
    for number, one in enumerate(chapters):
        body.append(_chapter(one, f"s{number}-" if several else "", points))
    script, style = _resource("page.js"), _resource("style.css") + _resource("plot.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    data = json.dumps(points, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        f"<h1>{title}</h1>{''.join(body)}"
        f'<p class="lead">{escape(f"Measured on {machine}. " if machine else "")}'
        f"This page was made by slipstream {escape(__version__)}.</p>"
        '<div id="tip" role="status" hidden></div>'
        f'<script type="application/json" id="points">{data}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def standalone(plot: Plot) -> str:
    """A plot as an SVG file of its own, in the colours of a light page."""
    light = re.search(r":root \{(.*?)\}", _resource("style.css"), re.DOTALL)
    assert light is not None
    colours = dict(re.findall(r"--(\w+): ([^;]+);", light[1]))
    # Programs that print SVG know no variables.
    style = re.sub(r"var\(--(\w+)\)", lambda one: colours[one[1]], _resource("plot.css"))
    style = style.replace('system-ui, -apple-system, "Segoe UI", Roboto', "Helvetica, Arial")
    svg = draw(plot).svg
    width, height = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg).groups()  # type: ignore[union-attr]
    sized = svg.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    begin, _, rest = sized.partition(">")
    return f'{begin}><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{rest}\n'


def _chapter(one: Chapter, prefix: str, points: dict[str, object]) -> str:
    parts = []
    if one.setting.label:
        parts.append(f"<h2 class=setting>{escape(one.setting.label)}</h2>")
    parts.append(f'<p class="answer">{escape(headline(one.results))}</p>')
    if one.results:
        parts.append(_table(*cells(one.results, SHORT)))
    said = [*notes(one.setting, one.results), *one.remarks]
    items = "".join(f"<li>{escape(note)}</li>" for note in said)
    parts.append(f'<ul class="notes">{items}</ul>' if items else "")
    if one.results:
        rest = [name for name in cells(one.results)[0] if name not in SHORT[1:]]
        parts.append(
            "<details><summary>Loss, memory, bytes</summary>"
            f"{_table(*cells(one.results, rest))}{_legend_of_table()}</details>"
        )
    for heading, lead, names in _SECTIONS:
        shown = [plot for plot in one.plots if plot.name.startswith(names)]
        if shown:
            figures = "".join(_figure(plot, prefix, points) for plot in shown)
            lead = f'<p class="lead">{escape(lead)}</p>' if lead else ""
            parts.append(f'<h2>{heading}</h2>{lead}<div class="plots">{figures}</div>')
            if heading == "Skipping":
                parts.append(_skipped(one.setting))
    parts.append(_runs(one.setting))
    return "".join(parts)


def _skipped(setting: Setting) -> str:
    rows = skipped_table(setting)
    if not rows:
        return ""
    return (
        f"<details{' open' if len(rows) <= _FEW else ''}><summary>What was skipped</summary>"
        f"{_table(NAMES, rows)}"
        '<p class="lead">Label rate and loss are those of skipped inputs, beside those of trained '
        "ones; the loss is from the first decision on, and for skipped inputs that of a few that "
        "were scored and not trained. Kept by names the tables that keep most inputs from being "
        "skipped, with their share of the inputs that decisions looked at. Deciding is the time of "
        "classifying, gathering, and searching with snapshots; scoring that of "
        "the few.</p></details>"
    )


def _figure(plot: Plot, prefix: str, points: dict[str, object]) -> str:
    drawn = draw(plot)
    name = prefix + plot.name
    if drawn.points:
        points[name] = drawn.points
    svg = drawn.svg.replace(f'data-plot="{plot.name}"', f'data-plot="{name}"', 1)
    return (
        f"<figure><h3>{escape(plot.title)}</h3>{svg}"
        f"<figcaption>{escape(plot.text)}</figcaption></figure>"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td{" class=first" if not number else ""} data-name="{escape(name)}">'
            f"{_cell(cell)}</td>"
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


def _legend_of_table() -> str:
    return (
        '<p class="lead">± is half of the 95 % interval, by Student\'s t over the seeds. Changes '
        "and speed-ups are from the baseline's run of the same seed. Inputs/s are those gone "
        "through, skipped ones counted, after the first report of a run. The same AUC is the one "
        "that every run of a seed reaches.</p>"
    )


def _runs(setting: Setting) -> str:
    runs = setting.runs
    labels = {id(run): v.label for v in setting.variants for run in (*v.runs, *v.unfinished)}
    names = ["run", "strategy", "seed", "state", "AUC", "inputs/s", "train", "start"]
    rows = [[run.name, labels[id(run)], str(run.seed), *_state(run)] for run in runs]
    commands = "\n".join(command(run, runs) for run in runs)
    made_with = "; ".join(f"{name} {' and '.join(v)}" for name, v in versions(runs).items())
    return (
        f"<h2>The runs</h2><details{' open' if len(runs) <= _FEW else ''}><summary>{len(runs)} "
        f"{'run' if len(runs) == 1 else 'runs'}</summary>{_table(names, rows)}</details>"
        "<details><summary>Repeat them: configuration and commands</summary>"
        '<p class="lead">Save this as config.yaml; it is complete. The commands change what is '
        f"different in each run.</p><pre>{escape(shared_config(runs))}</pre>"
        f"<pre>{escape(commands)}</pre></details>"
        f'<p class="lead">Trained with {escape(made_with or "versions that are not known")}.</p>'
    )


def _state(run: RunRecord) -> list[str]:
    rate = run.inputs_per_second
    shown = "" if rate is None else compact(rate)
    if run.summary is None:
        return [f"unfinished, at input {run.position:,}", "", shown, "", ""]
    auc = run.summary.get("auc")
    return [
        "ended",
        "undefined" if auc is None else f"{auc:.4f}",
        shown,
        f"{run.summary['train_seconds']:.1f} s",
        f"{run.start_seconds:.1f} s",
    ]


def _resource(name: str) -> str:
    return (resources("slipstream.report") / name).read_text(encoding="utf-8")
