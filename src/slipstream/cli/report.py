"""`slipstream report`: the results of runs on one page."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.cli.terminal import print_line


def report(
    runs: list[Path] = typer.Argument(
        ..., metavar="RUN...", help="Folders of runs, or a folder that contains runs."
    ),
    to: Path | None = typer.Option(
        None,
        "--out",
        metavar="FILE",
        help="The page to write. Default: report.html beside the runs.",
    ),
    plots: Path | None = typer.Option(None, metavar="DIR", help="Also write the plots as SVG."),
) -> None:
    """Write a page that shows and compares runs, for a browser.

    The page begins with the result: what was faster, what it cost, and whether the difference is
    more than noise. Runs that differ only in their seed are one line. Runs on different data or
    with different models are not compared.

    Example: slipstream report runs/plain runs/fast --out report.html --plots figures
    """
    from slipstream.analyze.report.write import report_on
    from slipstream.cli.compare_progress import print_report

    result = report_on(runs)
    path = to or (runs[0] if len(runs) == 1 else Path()) / "report.html"
    result.write(path, plots)
    print_report(result)
    print_line(f"The report is in {path}.")
