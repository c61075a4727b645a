"""The page of real runs, in a real browser."""

import re
import xml.etree.ElementTree as ET

import pytest
from analyze.report.made_runs import run
from browser import Browser
from in_process import run as command
from small_runs import config, stop_after

from slipstream import Dataset, Recipe, synthesize, train
from slipstream.analyze.report.page import Chapter, page
from slipstream.analyze.report.plots import colours_of, plots_of
from slipstream.analyze.report.results import results_of
from slipstream.analyze.report.settings import groups_of
from slipstream.analyze.report.write import report_on
from slipstream.training.state import StoppedError

PLOTS = {"auc-inputs", "auc-time"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two strategies with two seeds each, and a run that was stopped."""
    folder = tmp_path_factory.mktemp("report")
    dataset = Dataset.open(synthesize(Recipe(rows=3000), folder / "clicks"))
    settings = ("placement.fast_memory=auto", "evaluate.at=[0.3, 0.6]", "compile=off")
    for strategy in ("plain", "fast"):
        for seed in (0, 1):
            wanted = config(*settings, batch_size=64, strategy=strategy, seed=seed)
            train(dataset, wanted, folder / "runs" / f"{strategy}-{seed}")
    with pytest.raises(StoppedError):
        wanted = config(*settings, batch_size=64, strategy="bagpipe")
        train(dataset, wanted, folder / "runs" / "bagpipe-0", hooks=stop_after(30))
    return folder


@pytest.fixture(scope="module")
def written(runs):
    done = command("report", runs, "--plots", runs / "plots")
    assert done.exit_code == 0, done.output
    assert "bagpipe-0 has not ended" in done.output
    assert f"The report is in {runs / 'report.html'}." in done.output
    return runs / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def test_the_page_needs_no_other_file_and_is_small(written):
    text = written.read_text()
    assert len(text) < 2_000_000
    assert not re.search(r"""(src|href)=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", text)


def test_the_same_runs_give_the_same_page(runs, written):
    assert page(report_on([runs]).chapters) == written.read_text()


def test_every_plot_is_also_a_file_that_any_program_can_draw(runs, written):
    files = {path.stem: path for path in (runs / "plots").iterdir()}
    assert files.keys() == PLOTS
    for path in files.values():
        assert ET.parse(path).getroot().tag.endswith("svg")
        assert "var(" not in path.read_text()


def test_the_page_explains_how_to_repeat_a_run(written):
    assert "slipstream train --config RUN/config.yaml" in written.read_text()


def test_the_page_shows_the_seconds_of_each_phase():
    (group,) = groups_of([run(phase_seconds={"plan": 0.1, "step": seconds}) for seconds in (1, 2)])
    text = page([Chapter(group, results_of(group), [])])
    assert '<td data-name="step"><span>1.5 s</span>' in text


def test_what_users_name_is_escaped_everywhere():
    evil = "<script>alert(1)</script>\"'&"
    keys = {"placement": {"kind": evil}, "data": evil, "seed": 0}
    runs = [run("plain", 0), run(evil, 0), run("fast", 0, config=keys), run(evil, 1, config=keys)]
    text = ""
    for group in groups_of(runs):
        results = results_of(group)
        plots = plots_of(group, results, colours_of([group]))
        text += page([Chapter(group, results, plots, [evil])])
    assert evil not in text
    assert text.count("<script") == 2 * text.count("</html>")


@pytest.mark.needs("chromium")
@pytest.mark.parametrize(("width", "dark"), [(1100, False), (1100, True), (360, False)])
def test_it_shows_in_a_browser_without_a_complaint(written, browser, width, dark):
    browser.problems.clear()
    browser.requests.clear()
    browser.open(written, width=width, dark=dark)
    assert browser.problems == []
    assert browser.requests == [written.as_uri()]
    assert browser.run("document.documentElement.scrollWidth") == width
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == dark


@pytest.mark.needs("chromium")
def test_it_loads_in_less_than_a_second(written, browser):
    times = []
    for _ in range(3):  # other work on the machine must not count
        browser.open(written)
        timing = "performance.timing"
        times.append(browser.run(f"{timing}.domComplete - {timing}.navigationStart"))
    assert min(times) < 1000


@pytest.mark.needs("chromium")
def test_every_plot_has_marks(written, browser):
    browser.open(written)
    marks = browser.run(
        "Object.fromEntries([...document.querySelectorAll('svg.plot')].map(svg => "
        "[svg.dataset.plot, [...svg.querySelectorAll('.s')].filter(mark => "
        "{ const box = mark.getBBox(); return box.width || box.height; }).length]))"
    )
    assert marks.keys() == PLOTS
    assert min(marks.values()) > 0


def middle(browser, selector):
    """Where an element is, once it has been brought into view."""
    return browser.run(
        f"(() => {{ const element = document.querySelector('{selector}');"
        "element.scrollIntoView({block: 'center'}); const box = element.getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )


def shown(browser):
    return browser.run(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
    )


@pytest.mark.needs("chromium")
@pytest.mark.parametrize("width", [1100, 360])
def test_pointing_at_a_mark_shows_its_value(written, browser, width):
    browser.open(written, width=width)
    browser.point_at(*middle(browser, 'svg[data-plot="auc-inputs"] circle'))
    assert re.fullmatch(r"\w+, seed \d\n[\d,]+ examples · AUC 0\.\d{4}", shown(browser))
    assert browser.run("document.querySelectorAll('.ring').length") == 1
    browser.point_at(*middle(browser, "h2"))
    assert shown(browser) == ""


@pytest.mark.needs("chromium")
def test_the_legend_switches_a_series_off_and_on(written, browser):
    browser.open(written)
    key = 'svg[data-plot="auc-time"] .key[data-k="v1"]'
    visible = (
        "[...document.querySelectorAll('svg.plot .s[data-k=\"v1\"]')]"
        ".filter(mark => getComputedStyle(mark).display !== 'none').length"
    )
    before = browser.run(visible)
    assert before > 0
    browser.point_at(*middle(browser, key), click=True)
    assert browser.run(visible) == 0
    assert browser.run(f"document.querySelector('{key}').getAttribute('aria-pressed')") == "false"
    browser.run(f"document.querySelector('{key}').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter")
    assert browser.run(visible) == before


@pytest.mark.needs("chromium")
def test_the_page_can_be_printed_on_the_screen_of_a_telephone(written, browser, tmp_path):
    browser.open(written, width=360, height=640)
    small = browser.run(
        "Math.min(...[...document.querySelectorAll('svg.plot text')]"
        ".map(text => text.getBoundingClientRect().height))"
    )
    assert small > 9
    browser.screenshot(tmp_path / "telephone.png")
    assert (tmp_path / "telephone.png").stat().st_size > 10_000


def test_a_typo_is_answered_with_a_sentence(runs):
    done = command("report", runs / "runs" / "fast-00")
    assert done.exit_code == 2
    assert "Did you mean fast-0?" in done.output


def test_runs_that_skip_show_the_price_of_their_share():
    skipping = {"skip_share": 0.3, "config": {"skip": {"rule": "value"}}}
    runs = [run("plain", n) for n in (0, 1)] + [run("fast", n, **skipping) for n in (0, 1)]
    (group,) = groups_of(runs)
    plots = {p.name: p for p in plots_of(group, results_of(group), colours_of([group]))}
    assert {each.points[0] for each in plots["skip-auc"].series} == {(0.0, 0.0), (0.3, 0.0)}
