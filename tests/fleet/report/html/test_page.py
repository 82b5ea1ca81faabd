"""The page: what it says, that strings are text, and how a real browser shows it."""

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError
from PIL import Image
from typer.testing import CliRunner

from edgestill.cli.main import app
from fleet.report.facts import read_runs
from fleet.report.figures.catalogue import Picture
from fleet.report.html.page import _templates, page
from fleet.report.summary import OWN_MODELS, prototype_rows
from tests.fleet.report.browser import asked_for, chromium, measured, needs_chromium
from tests.fleet.report.made import BIT, CNN, a_run, facts, written

ELSEWHERE = "http://127.0.0.1:9/x.png"
EVIL = "<script>alert('x')</script>\"&"


class Checker(HTMLParser):
    """Tags that are opened are closed, in turn; ids are given once."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.alts: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.seen.append(tag)
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.alts += [given["alt"]] if "alt" in given else []
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page_of(*runs: Path) -> str:
    """The page without its pictures, which take longer than all else."""
    return page(read_runs(list(runs)), [], 0.7)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the command says of a report of two runs, one with a name longer than a line."""
    folder = tmp_path_factory.mktemp("report")
    runs = [written(folder / "a"), written(folder / ("b" * 120), a_run((0.3, 0.4, 0.512), seed=1))]
    words = ["report", *map(str, runs), "--out", str(folder / "r.html"), "--target", "60", "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def report(told: dict[str, Any]) -> list[Path]:
    """Its files."""
    return [Path(file) for file in told["files"]]


def test_the_numbers_of_a_report_are_told(told: dict[str, Any]) -> None:
    assert [[p["rounds_to_target"] for p in run["prototypes"]] for run in told["runs"]] == [[2, 3], [None, None]]
    assert (told["target"], [run["run"] for run in told["runs"]]) == (0.6, ["a", "b" * 120])
    assert told["runs"][1]["prototypes"][0]["accuracy"] == 0.512


def test_a_report_is_one_page_and_a_picture_per_figure(report: list[Path]) -> None:
    figures = ("comparison", "accuracy", "rounds", "bytes", "scores", "partition", "time")
    assert [file.name for file in report] == ["r.html", *(f"r-{name}.png" for name in figures)]
    for file in report[1:]:
        assert Image.open(file).convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        assert base64.b64encode(file.read_bytes()).decode() in report[0].read_text(), "the page has it inside"


def test_the_page_is_well_formed_and_its_links_lead_somewhere(report: list[Path]) -> None:
    checker = Checker()
    checker.feed(report[0].read_text())
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert checker.links
    assert all(link.removeprefix("#") in checker.ids for link in checker.links)
    assert not {"script", "link", "iframe", "object"} & set(checker.seen)
    assert checker.seen.count("source") == checker.seen.count("img") == 7, "a dark picture beside each"
    assert {"header", "nav", "main", "section", "figure", "figcaption", "caption", "footer"} <= set(checker.seen)


def test_every_string_of_a_run_is_text(tmp_path: Path) -> None:
    run = a_run(recipe=EVIL, dataset=EVIL, **{EVIL: EVIL})
    run.fleet[2]["device"] = EVIL
    run.fleet[3]["attack"] = EVIL
    run.rounds[0].devices["sim-3"]["screened"] = EVIL
    for result in run.rounds:
        result.prototypes[EVIL] = result.prototypes.pop(BIT)
    text = page_of(written(tmp_path / "<b>&run", run))
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;script&gt;alert(&#39;x&#39;)" in text
    shown = Checker()
    shown.feed(text)
    assert shown.text.count(EVIL) >= 6, "recipe, key and value of a setting, device, attack, reason, prototype"


def test_a_picture_s_words_are_text(tmp_path: Path) -> None:
    image = bytes(16) + (1300).to_bytes(4, "big")
    picture = Picture(name="x", title=EVIL, caption=EVIL, alt=EVIL, light=image, dark=image)
    shown = Checker()
    shown.feed(page(read_runs([written(tmp_path / "run")]), [picture], 0.7))
    assert shown.alts == [EVIL]
    assert shown.text.count(EVIL) == 3, "link, heading and caption"
    assert "script" not in shown.seen


def test_a_name_that_a_template_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="titel"):
        _templates().from_string("{{ titel }}").render(title="x")


def test_a_capped_device_stands_in_the_table_with_its_claim(tmp_path: Path) -> None:
    assert "capped" not in page_of(written(tmp_path / "fair"))
    run = a_run()
    for result in run.rounds[1:]:
        result.devices["sim-2"]["capped"] = {"claimed": 10**6, "counted": 30 + result.round, "labels": None}
    text = page_of(written(tmp_path / "lied", run))
    assert '<td class="text">2×: claimed 1,000,000 examples, counted for 33</td>' in text


def test_the_devices_own_models_stand_in_tables_where_they_were_scored(tmp_path: Path) -> None:
    assert "own slice" not in page_of(written(tmp_path / "unscored"))
    run = a_run()
    last = run.rounds[-1]
    spread = dict(zip(OWN_MODELS, (0.91, 0.81, 0.99, 0.31, 0.21, 0.41), strict=True))
    last.prototypes[CNN] = replace(last.prototypes[CNN], **spread)
    last.devices["sim-2"] |= {"own_accuracy": 0.811, "whole_accuracy": 0.211}
    text = page_of(written(tmp_path / "scored", run))
    cells = "".join(f'<td class="number">{100 * value:.1f} %</td>' for value in spread.values())
    assert f'<th scope="row">{CNN}</th>{cells}' in text
    assert '<td class="number">81.1 %</td><td class="number">21.1 %</td>' in text
    assert prototype_rows(facts(tmp_path / "again", run), 0.5)[0]["own_worst"] == 0.81


def test_settings_in_which_runs_differ_are_marked(tmp_path: Path) -> None:
    text = page_of(written(tmp_path / "a"), written(tmp_path / "b", a_run(seed=1)))
    marked = re.findall(r'<tr class="differs"><th scope="row">([^<]+)</th><td class="text">(\d)</td>', text)
    assert marked == [("seed ≠", "0")]
    assert "training.lr" in text


def test_tables_of_many_runs_are_folded_and_those_of_few_are_not(tmp_path: Path) -> None:
    runs = [written(tmp_path / name) for name in "abcde"]
    assert "<h3>a</h3>" in page_of(*runs[:4])
    assert "<details><summary>a</summary>" in page_of(*runs).partition('id="devices"')[0]


def test_the_tiles_of_a_single_run_are_its_last_round(tmp_path: Path) -> None:
    text = page_of(written(tmp_path / "a"))
    tiles = re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)<", text)
    assert tiles[:3] == [("mean accuracy", "77.5 %"), ("best prototype", "90.0 %"), ("ensemble", "95.0 %")]
    assert tiles[-1] == ("attackers&#39; share", "0.0 %")


@needs_chromium
@pytest.mark.parametrize("width", [1200, 500])
def test_a_browser_shows_the_final_accuracies_and_nothing_is_too_wide(report: list[Path], width: int) -> None:
    text, overflow, broken = measured(report[0], width=width)
    for shown in ("90.0 %", "65.0 %", "51.2 %", "26.2 %", "fedrad", "is hardly ever the median"):
        assert shown in text
    assert overflow == 0
    assert broken == 0


@needs_chromium
def test_opening_the_page_asks_nobody_even_if_something_else_got_in(report: list[Path], tmp_path: Path) -> None:
    light, log, smuggled = tmp_path / "light.png", tmp_path / "net.json", tmp_path / "smuggled.html"
    smuggled.write_text(report[0].read_text().replace("<main>", f'<main><img src="{ELSEWHERE}" alt="">'))
    chromium(smuggled, f"--screenshot={light}", f"--log-net-log={log}", width=900, height=1600)
    assert asked_for(log) == []
    assert background(light) == (0xF6, 0xF7, 0xF9)


@needs_chromium
def test_the_checks_notice_what_is_wrong(tmp_path: Path) -> None:
    log, bad = tmp_path / "net.json", tmp_path / "bad.html"
    bad.write_text(f'<head></head><div style="width: 3000px">x</div><img src="{ELSEWHERE}">')
    _, overflow, broken = measured(bad, f"--log-net-log={log}", width=800)
    assert (overflow, broken) == (2208, 1)  # the body has 8 pixels of margin
    assert asked_for(log) == [ELSEWHERE]


@needs_chromium
def test_who_prefers_dark_gets_a_dark_page(report: list[Path], tmp_path: Path) -> None:
    dark = tmp_path / "dark.png"
    chromium(report[0], "--force-dark-mode", f"--screenshot={dark}", width=900, height=1600)
    assert background(dark) == (0x0F, 0x12, 0x16)


def background(screenshot: Path) -> tuple[int, ...]:
    """The colour of a corner, of a picture that shows something."""
    shot = Image.open(screenshot).convert("RGB")
    assert len(shot.getcolors(1 << 24)) > 50, "figures are drawn"
    return shot.getpixel((2, 2))


def test_lost_devices_are_told_with_the_reason(tmp_path: Path) -> None:
    run = a_run()
    run.rounds = [replace(r, lost={"sim-1": "<b>training diverged"} if r.round < 3 else {}) for r in run.rounds]
    text = page_of(written(tmp_path / "a", run))
    assert "2×: &lt;b&gt;training diverged" in text
    assert "of 14 updates" in text
    assert "<dt>lost</dt>" in text
    assert "<dt>lost</dt>" not in page_of(written(tmp_path / "b"))


def test_warnings_of_a_run_are_told_with_their_rounds(tmp_path: Path) -> None:
    run = a_run()
    run.rounds = [replace(r, warnings=["training <b>does not converge"] if r.round == 2 else []) for r in run.rounds]
    text = page_of(written(tmp_path / "a", run))
    assert "training &lt;b&gt;does not converge" in text
    assert ">Warnings<" in text
    assert ">Warnings<" not in page_of(written(tmp_path / "b", a_run((0.8, 0.9, 1.0))))
