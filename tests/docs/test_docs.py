"""What README.md and docs/ say is true: snippets run, commands and flags exist, links lead somewhere.

Fences: `sh` is run, and holds `edgestill` commands only; `python` is run too, the snippets of one page one after the
other in one namespace and one folder; `bash` is a piece of one script, that of its page, which a test of its own
runs; `console` is for what needs a network or takes long, and is only checked for commands and flags that exist.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import typer
from PIL import Image

from core.config_keys import read_toml
from edgestill.cli.main import app
from fleet.data import DATASETS
from fleet.results.run_file import read_run
from models.build import build
from models.spec import PrototypeSpec
from models.zoo import ZOO
from quant.precision import FP32, PRECISIONS
from tests.edge_agent.predict.boards import images, leave_model

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("sh", "bash", "console", "python", "toml", "conf", "acl", "")
HANGS_S = 900  # ends a test that hangs; a quiet machine takes a twentieth of it
LONG = (
    "simulate.md",
    "simulate-reference.md",
    "own.md",
    "fusion.md",
    "virtual-time.md",
)  # pages whose simulations take a minute together
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


class Snippet(NamedTuple):
    language: str
    code: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [Snippet(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in FENCE.finditer(text)]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def shell_lines(code: str) -> list[str]:
    """The command lines of a shell snippet, continued lines joined, prompts and comments left out."""
    lines = code.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").partition(" #")[0].strip() for line in lines if line.strip()]


def environment(folder: Path) -> dict[str, str]:
    """An environment in which `edgestill` is this tree's, installed or not."""
    commands = folder / "bin"
    commands.mkdir()
    for name, arguments in {"edgestill": "-m edgestill ", "python": ""}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments}"$@"\n')
        (commands / name).chmod(0o755)
    return {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": f"{folder}:{ROOT}"}


def run_shell(code: str, folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", "-e", "-c", code], capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=HANGS_S
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def _runnable(page: Path) -> Any:
    return pytest.param(page, marks=[pytest.mark.slow] * (page.name in LONG), id=name_of(page))


def board_with_a_model(folder: Path) -> None:
    """What the page for applications finds on its board."""
    leave_model(folder / "model")
    Image.fromarray(images(1)[0].transpose(1, 2, 0)).save(folder / "leaf.png")


PREPARED = {"application.md": board_with_a_model}


@pytest.mark.parametrize(
    "page", [_runnable(p) for p in PAGES if any(s.language in ("sh", "python") for s in snippets(p))]
)
def test_every_snippet_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runnable = [s for s in snippets(page) if s.language in ("sh", "python")]
    absent = {n for n, known in DATASETS.items() if known.variants and not known.found()}
    if wanted := {n for n in absent for s in runnable if re.search(rf"\b{n}\b", s.code)}:
        pytest.skip(f"{name_of(page)} uses {', '.join(sorted(wanted))}, which is not on this machine")
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)
    PREPARED.get(page.name, lambda _: None)(tmp_path)
    env, namespace = environment(tmp_path), {"__name__": "snippet"}
    for snippet in runnable:
        if snippet.language == "sh":
            run_shell(snippet.code, tmp_path, env)
        else:
            where = f"{name_of(page)} from line {snippet.line}"
            exec(compile(snippet.code, where, "exec"), namespace)


@pytest.mark.slow
def test_the_own_model_of_the_page_joins_a_fleet_as_the_page_says(tmp_path: Path) -> None:
    page = snippets(ROOT / "docs" / "prototypes.md")
    (net,) = [s.code for s in page if s.language == "python" and "def mynet(" in s.code]
    (project,) = [s.code for s in page if s.language == "toml"]
    declared = ConfigParser()
    declared.read_string(project)
    ((name, target),) = declared['project.entry-points."edgestill.models"'].items()
    module = target.strip('"').partition(":")[0].split(".")
    file = tmp_path.joinpath(*module).with_suffix(".py")
    file.parent.mkdir()
    file.write_text(net)
    installed = tmp_path / "mypackage-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[edgestill.models]\n{name} = {target.strip(chr(34))}\n")
    prototypes = f"{name}:fp32,{name}:w1"
    run_shell(
        f"edgestill simulate --devices 2 --prototypes {prototypes} --rounds 1 --local-steps 1 --out mine",
        tmp_path,
        environment(tmp_path),
    )
    assert list(read_run(tmp_path / "mine")["rounds"][0]["prototypes"]) == prototypes.split(",")


@pytest.mark.slow
def test_the_fleet_of_the_quickstart_learns_and_predicts(tmp_path: Path) -> None:
    """The page's script as it stands, but for the port, and one short round instead of five."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    script = "".join(s.code for s in snippets(ROOT / "docs" / "quickstart-fleet.md") if s.language == "bash")
    here = {
        "EDGESTILL_BROKER_PORT": port,
        "EDGESTILL_AGGREGATOR_ROUND_ROUNDS": "1",
        "EDGESTILL_AGGREGATOR_TRAIN_EPOCHS": "1",
        "EDGESTILL_AGENT_TRAIN_NICE": "0",  # with other tests beside it, a polite child takes twice as long
    }
    shell = subprocess.Popen(
        ["bash", "-e", "-c", "trap 'test ! -f pids || kill $(cat pids)' EXIT\n" + script.replace("1883", port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**environment(tmp_path), **here},
        start_new_session=True,  # so that what it leaves behind ends with it
    )
    try:
        said, _ = shell.communicate(timeout=HANGS_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said
    assert re.search(r"round 1 closed: accuracy cnn:w1 0\.\d+", said), said
    predicted = said.partition("wrote cnn-w1.onnx")[2].splitlines()[1:]
    assert len(predicted) == 20, said
    assert set(predicted) <= set("0123456789")
    assert (tmp_path / "garden" / "pi-02" / "state" / "current.onnx").exists()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shell_snippets_hold_nothing_that_would_not_be_run(page: Path) -> None:
    for snippet in snippets(page):
        assert snippet.language in LANGUAGES, f"{name_of(page)}:{snippet.line}"
        if snippet.language == "sh":
            lines = shell_lines(snippet.code)
            assert lines
            assert all(line.startswith("edgestill ") for line in lines), f"{name_of(page)}:{snippet.line}"


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of every `edgestill ...` that a page shows, in fences and in running text."""
    for snippet in snippets(page):
        if snippet.language != "python":
            yield from (shlex.split(line)[1:] for line in shell_lines(snippet.code) if line.startswith("edgestill "))
    running_text = FENCE.sub("", page.read_text())
    yield from (shlex.split(code) for code in re.findall(r"`edgestill ([^`]+)`", running_text))


def find_command(words: list[str]) -> Any:
    """The command that `words` start with; fails on a name that no command has."""
    command = typer.main.get_command(app)
    for word in words:
        subcommands = getattr(command, "commands", None)
        if subcommands is None or word.startswith("-"):
            break
        assert word in subcommands, f"there is no edgestill command {' '.join(words)!r}"
        command = subcommands[word]
    return command


def flags_of(command: Any) -> set[str]:
    return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    for words in commands_of(page):
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= flags_of(find_command(words)) | {"--debug"}, f"{name_of(page)}: edgestill {' '.join(words)}"


def test_the_pages_name_commands_at_all() -> None:
    named = {words[0] for page in PAGES for words in commands_of(page)}
    assert named >= {"simulate", "data", "prototype", "aggregator", "agent", "broker", "keys", "model", "status"}


def test_the_simulate_page_lists_every_flag_with_its_default_and_no_other() -> None:
    rows = re.findall(r"^\| (`--.*?) \|(.*?)\|", (ROOT / "docs" / "simulate-reference.md").read_text(), re.MULTILINE)
    documented = {flags.split("`")[1]: default.strip(" `") for flags, default in rows}
    (simulate,) = [c for n, c in typer.main.get_command(app).commands.items() if n == "simulate"]
    parameters = {next(o for o in p.opts if o.startswith("--")): p for p in simulate.params}
    assert documented.keys() == parameters.keys() - {"--help"}
    for flag, default in documented.items():
        truth = parameters[flag].default
        if isinstance(truth, str):
            assert default == truth, flag
        elif isinstance(truth, int | float) and not isinstance(truth, bool):
            assert float(default) == truth, flag


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_and_picture_resolves(page: Path) -> None:
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)} links to {target}"
        assert file.is_relative_to(ROOT), f"{name_of(page)} links out of the repository: {target}"
        if anchor:
            assert anchor in anchors(file), f"{name_of(page)}: {path} has no heading for #{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, by the rule of code hosts: lower case, no punctuation, spaces to hyphens."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_the_two_commands_and_every_page() -> None:
    text = (ROOT / "README.md").read_text()
    commands = [line for s in snippets(ROOT / "README.md") if s.language == "console" for line in shell_lines(s.code)]
    assert [line for line in commands if line.startswith("make")] == ["make demo", "make test"]
    assert "edgestill simulate --out first" in commands
    for page in PAGES[1:]:
        assert f"]({name_of(page)})" in text, f"{name_of(page)} is not linked"


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "img").glob("*.png")), ids=lambda p: p.name)
def test_pictures_are_small_and_shown(picture: Path) -> None:
    assert picture.stat().st_size < 100_000
    assert any(f"img/{picture.name})" in page.read_text() for page in PAGES)


def table_rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, its head left out."""
    section = (ROOT / page).read_text().partition(f"## {heading}\n")[2]
    lines = re.search(r"^\|.*?(?=^[^|]|\Z)", section, re.MULTILINE | re.DOTALL)
    assert lines, f"{page} has no table below {heading!r}"
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[0].splitlines()[2:] if line]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_zoo_table_names_every_architecture_with_its_width_and_parameters() -> None:
    rows = table_rows("docs/prototypes.md", "The zoo")
    assert {name for row in rows for name in names_in(row[0])} == set(ZOO)
    for names, shape, width, parameters, *_ in rows:
        for name in names_in(names):
            if name == "distilbert":  # its size is that of the user's folder
                continue
            sizes = (int(shape.split()[0]),) if "tokens" in shape else tuple(map(int, shape.split("x")))
            model = build(PrototypeSpec(name, FP32, sizes, 4 if name == "text" else 10))
            found = (model.latent, sum(p.numel() for p in model.parameters()))
            assert found == (int(width), int(parameters.replace(",", ""))), name


def test_the_precisions_table_names_every_precision() -> None:
    rows = table_rows("docs/prototypes.md", "Precisions")
    assert [name for row in rows for name in names_in(row[0])] == [str(p) for p in PRECISIONS]


def test_the_readme_lists_every_extra() -> None:
    extras = read_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]
    rows = table_rows("README.md", "Requirements")
    assert {name for row in rows for name in names_in(row[0])} == set(extras)


def test_the_architecture_page_lists_the_packages_in_the_order_of_their_imports() -> None:
    rows = table_rows("docs/architecture.md", "Packages, and who may import whom")
    packages = [name.rstrip("/") for row in rows for name in names_in(row[0])]
    order = re.search(
        r"^ORDER = (\[.*?\])", (ROOT / "tests" / "test_layering.py").read_text(), re.MULTILINE | re.DOTALL
    )
    assert order
    assert packages == ast.literal_eval(order[1])


def test_the_walks_of_the_architecture_page_lead_through_functions_that_exist() -> None:
    section = (ROOT / "docs/architecture.md").read_text().partition("## Four walks\n")[2].partition("\n## ")[0]
    walks = [re.findall(r"^\| `([\w/]+\.py):(\w+)`", walk, re.MULTILINE) for walk in section.split("\n**")[1:]]
    assert [len(walk) > 8 for walk in walks] == [True] * 4
    for walk in walks:
        files = [file for file, _ in walk]
        assert len(set(files)) == len(files), "a module is visited twice"
        for file, function in walk:
            assert re.search(rf"^\s*def {function}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}:{function}"
