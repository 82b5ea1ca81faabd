"""A user's code end to end: from Python and from a file, with the same bits, in workers and out of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import edgestill as es
from core import own_code
from edgestill.cli.main import main
from tests.fleet.simulation.own_code import own

pytestmark = pytest.mark.slow
FLEET: dict[str, Any] = {"devices": 4, "rounds": 1, "seed": 2, "quiet": True}


@pytest.fixture(autouse=True)
def _in_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_code, "_lent", {})
    shutil.copy(str(own.__file__), tmp_path / "own.py")
    monkeypatch.chdir(tmp_path)


def digests(run: es.Run) -> dict[str, str]:
    return {name: run.model(name).digest for name in run.prototypes}


def by_command(*flags: str) -> es.Run:
    with pytest.raises(SystemExit) as left:
        main(
            ["simulate", "--devices", "4", "--rounds", "1", "--seed", "2", *flags, "--out", "run", "--force", "--quiet"]
        )
    assert left.value.code == 0
    return es.load_run("run")


def test_objects_and_names_in_files_give_the_same_bits() -> None:
    run = es.simulate(
        **FLEET,
        prototypes=[own.MyNet, (own.MyNet, "w1")],
        partition=own.halves,
        recipe=own.MINE,
        attack={own.drift: 1, own.shifted: [3]},
        objective=own.focal,
        workers=2,
    )
    names = "--prototypes=own.py:MyNet:fp32,own.py:MyNet:w1 --partition=own.py:halves --recipe=own.py:MINE"
    more = "--attack=own.py:drift:1,own.py:shifted@3 --objective=own.py:focal --engine=inline"
    assert digests(run) == digests(by_command(*names.split(), *more.split()))


@pytest.mark.parametrize("recipe", ["feddf", "fedgen", "edgestill", "fedrad"])
def test_an_own_network_is_distilled_and_guided(recipe: str) -> None:
    fusion = {"steps": 4} if recipe != "fedgen" else {"generator_steps": 2}
    run = es.simulate(**FLEET, prototypes=[own.MyNet, "mlp:fp32"], recipe=recipe, fusion=fusion, workers=2)
    inline = es.simulate(**FLEET, prototypes=[own.MyNet, "mlp:fp32"], recipe=recipe, fusion=fusion, engine="inline")
    assert digests(run) == digests(inline)
    assert run.model(own.MyNet).to_onnx("m.onnx").is_file()


def test_an_own_loop_and_objective_train() -> None:
    looped = es.simulate(**FLEET, prototypes=[own.MyNet], train=own.loop, workers=2)
    assert digests(looped) == digests(es.simulate(**FLEET, prototypes=[own.MyNet], train=own.loop, engine="inline"))
    assert digests(looped) == digests(by_command("--prototypes", "own.py:MyNet:fp32", "--train", "own.py:loop"))
    decayed = es.simulate(**FLEET, prototypes=["mlp:fp32"], objective=own.decayed)
    assert digests(decayed) != digests(es.simulate(**FLEET, prototypes=["mlp:fp32"]))


def test_a_class_that_is_defined_again_replaces_the_first() -> None:
    first = es.simulate(**FLEET, prototypes=[own.MyNet], recipe="feddf", fusion={"steps": 3})

    class MyNet(own.MyNet):
        def forward(self, x: Any) -> Any:
            return super().forward(-x)

    second = es.simulate(**FLEET, prototypes=[MyNet], recipe="feddf", fusion={"steps": 3})
    assert digests(first) != digests(second)


def test_a_callback_in_a_file_follows_the_command_line() -> None:
    by_command("--callback", "own.py:Follows")
    assert Path("followed").read_text() == "1 1"


def test_a_sweep_over_objects_runs_here_and_gives_the_same_bits(tmp_path: Path) -> None:
    base = {key: value for key, value in FLEET.items() if key != "quiet"}
    result = es.sweep({"prototypes": [[own.MyNet], ["mlp:fp32"]]}, base=base, out=tmp_path / "sweep", quiet=True)
    assert [row["prototypes"] for row in result.rows] == ["MyNet:fp32", "mlp:fp32"]
    assert digests(result.runs[0]) == digests(es.simulate(**FLEET, prototypes=[own.MyNet]))


def test_run_json_holds_the_files_and_resumes(tmp_path: Path) -> None:
    by_command("--prototypes", "own.py:MyNet:fp32")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["config"]["own_models"] == {"MyNet": "own.py:MyNet"}
    with pytest.raises(SystemExit) as left:
        main(["simulate", "--resume", "run", "--rounds", "2", "--quiet"])
    assert left.value.code == 0
    assert len(es.load_run("run").rounds) == 2
