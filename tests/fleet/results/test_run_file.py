"""run.json: what is written, and what is refused."""

import json
from pathlib import Path

import pytest

from core.errors import ConfigError, DataError
from fleet.results.run_file import (
    PrototypeResult,
    RoundResult,
    Run,
    claim_folder,
    has_personal_models,
    read_run,
    reported_metrics,
    write_run,
)


def result(**change: object) -> PrototypeResult:
    facts = {"accuracy": 0.5, "loss": 1.0, "train_loss": 1.5, "devices": 2, "bytes_up": 10, "bytes_down": 20, **change}
    return PrototypeResult(**facts)


def run() -> Run:
    first = RoundResult(
        round=1, prototypes={"a:fp32": result(), "b:w1": result(accuracy_float=0.25, bytes_up=3)}, seconds=1.23456
    )
    return Run(config={"seed": 0, "prototypes": ("a:fp32",)}, fleet=[{"device": "sim-0"}], rounds=[first])


def test_a_run_reads_back_with_the_documented_keys(tmp_path: Path) -> None:
    write_run(run(), tmp_path)
    facts = read_run(tmp_path)
    assert facts["config"] == {"seed": 0, "prototypes": ["a:fp32"]}
    (first,) = facts["rounds"]
    assert (first["round"], first["bytes_up"], first["bytes_down"], first["seconds"]) == (1, 13, 40, 1.235)
    assert first["prototypes"]["a:fp32"]["accuracy"] == 0.5
    assert "accuracy_float" not in first["prototypes"]["a:fp32"]
    assert first["prototypes"]["b:w1"]["accuracy_float"] == 0.25
    assert facts["versions"]["numpy"][0].isdigit()


def test_what_fusion_says_is_kept_and_what_is_not_finite_is_left_out(tmp_path: Path) -> None:
    devices = {"sim-0": {"weight": 0.5, "score": None, "screened": None}}
    distilled = result(loss=float("nan"), **reported_metrics({"ensemble_accuracy": 0.75, "distill_steps": 9.0, "x": 1}))
    last = RoundResult(round=1, prototypes={"a": distilled}, seconds=1, devices=devices, seconds_by={"teach": 0.12345})
    write_run(Run(config={}, fleet=[], rounds=[last]), tmp_path)
    assert "NaN" not in (tmp_path / "run.json").read_text()
    (first,) = read_run(tmp_path)["rounds"]
    assert first["devices"] == {"sim-0": {"weight": 0.5}}
    assert first["seconds_by"] == {"teach": 0.123}
    assert (first["prototypes"]["a"]["ensemble_accuracy"], first["prototypes"]["a"]["distill_steps"]) == (0.75, 9)
    assert "loss" not in first["prototypes"]["a"]


def test_a_run_of_schema_1_is_read_with_the_names_of_today(tmp_path: Path) -> None:
    """Its `accuracy` was that with float weights; what a board ran stood beside it."""
    first = run().rounds[0].to_json()
    first["prototypes"]["b:w1"] |= {"accuracy": 0.9, "accuracy_quantized": 0.4, "average_accuracy": 0.3}
    del first["prototypes"]["b:w1"]["accuracy_float"]
    old = {"schema": 1, "config": {}, "fleet": [], "rounds": [first]}
    (tmp_path / "run.json").write_text(json.dumps(old))
    facts = read_run(tmp_path)
    one_bit, full = (facts["rounds"][0]["prototypes"][name] for name in ("b:w1", "a:fp32"))
    assert (one_bit["accuracy"], one_bit["accuracy_float"]) == (0.4, 0.9)
    assert not {"accuracy_quantized", "loss", "average_accuracy"} & one_bit.keys(), "they were those of float weights"
    assert (full["accuracy"], full["loss"]) == (0.5, 1.0)
    assert RoundResult.from_json(facts["rounds"][0]).prototypes["b:w1"].accuracy == 0.4
    assert facts["schema"] == 1, "who goes on with it is to know"


@pytest.mark.parametrize("rounds", [[3], [{"prototypes": 3}], [{"prototypes": {"a": 3}}]])
def test_what_schema_1_has_wrong_is_left_for_those_who_check(tmp_path: Path, rounds: list) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": 1, "config": {}, "fleet": [], "rounds": rounds}))
    assert read_run(tmp_path)["rounds"] == rounds


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 99}', '{"schema": 0}', '{"schema": []}'])
def test_what_is_no_run_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(DataError, match=r"run\.json"):
        read_run(tmp_path)


def test_a_folder_without_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--out folder"):
        read_run(tmp_path)


def test_the_folder_of_a_sweep_or_a_part_of_a_run_is_told_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "sweep" / "runs" / "seed=0").mkdir(parents=True)
    (tmp_path / "sweep" / "runs" / "seed=0" / "run.json").write_text("{}")
    for folder in (tmp_path / "sweep", tmp_path / "sweep" / "runs"):
        with pytest.raises(DataError, match=rf"the folder of a sweep, .*: {tmp_path}/sweep/runs/\*$"):
            read_run(folder)
    (tmp_path / "sweep" / "runs" / "seed=0" / "fleet").mkdir()
    with pytest.raises(DataError, match=r"seed=0/fleet: a part of a run; give the whole, .*seed=0$"):
        read_run(tmp_path / "sweep" / "runs" / "seed=0" / "fleet")


def test_personal_models_are_those_of_the_recipe() -> None:
    assert has_personal_models({"fusion": {"personal": True}})
    assert not any(map(has_personal_models, ({}, {"fusion": {"personal": False}}, {"fusion": "personal"})))


def test_the_run_of_another_configuration_is_not_replaced(tmp_path: Path) -> None:
    write_run(run(), tmp_path)
    claim_folder(tmp_path, {"seed": 0, "prototypes": ("a:fp32",)})  # the same run again
    with pytest.raises(ConfigError, match="another configuration"):
        claim_folder(tmp_path, {"seed": 1, "prototypes": ("a:fp32",)})
    claim_folder(tmp_path, {"seed": 1}, force=True)


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another folder"):
        claim_folder(tmp_path / "file" / "run", {})


def test_the_file_is_valid_json_for_other_tools(tmp_path: Path) -> None:
    assert json.loads(write_run(run(), tmp_path).read_text())["schema"] == 2


def test_the_file_grows_with_the_run_and_says_what_the_run_does(tmp_path: Path) -> None:
    growing = Run(config={"seed": 0, "prototypes": ("a:fp32",)}, fleet=[{"device": "sim-0"}, {"device": "sim-1"}])
    for _ in range(3):
        assert read_run(write_run(growing, tmp_path)) == json.loads(json.dumps(growing.to_json()))
        growing.rounds += run().rounds
    lines = (tmp_path / "run.json").read_text().splitlines()
    assert sum(line.startswith('  {"device"') for line in lines) == 2
    assert sum(line.startswith('  {"round"') for line in lines) == 2


def test_a_round_is_read_back_as_it_was_told() -> None:
    told = run().rounds[0].to_json()
    assert RoundResult.from_json(told).to_json() == told
