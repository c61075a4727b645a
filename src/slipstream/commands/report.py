"""`slipstream report`: what came out of runs, on one page."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.commands.terminal import out, says_what_is_wrong


@says_what_is_wrong
def report(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Folders of runs, or a folder that holds runs."
    ),
    to: Path | None = typer.Option(
        None,
        "--out",
        metavar="FILE",
        help="Where to write the page. Default: report.html in the folder given, or here if "
        "several are given.",
    ),
    plots: Path | None = typer.Option(
        None, metavar="DIR", help="Also write every picture as an SVG file, for papers."
    ),
) -> None:
    """Put what came out of one or more runs on one page that opens offline.

    The answer comes first: what was faster, what that cost, and whether it is more than noise.
    Runs that differ only in their seed are taken together; those on other data or with another
    model are kept apart. A run that is still training is shown as far as it is.

    Example: slipstream report runs/plain runs/fast --out report.html --plots figures
    """
    from slipstream.report.answer import headline, notes
    from slipstream.report.write import report_on

    found = report_on(runs)
    path = to or (runs[0] if len(runs) == 1 else Path()) / "report.html"
    found.write(path, plots)
    for one in found.chapters:
        if one.setting.label:
            out.print(f"{one.setting.label}:", soft_wrap=True)
        out.print(headline(one.results), soft_wrap=True)
        for note in (*notes(one.setting, one.results), *one.remarks):
            out.print(f"- {note}", soft_wrap=True)
    out.print(f"The report is in {path}.", soft_wrap=True)
