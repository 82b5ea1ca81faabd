import warnings
from dataclasses import replace
from pathlib import Path

from PIL import Image

from fleet.results.curves import draw_curves
from fleet.results.run_file import PrototypeResult, RoundResult, Run

ANSWERED = PrototypeResult(accuracy=0.8, loss=0.5, train_loss=0.4, devices=2, bytes_up=2400, bytes_down=4000)
CONFIG = {"dataset": "digits", "devices": 4, "partition": "iid", "alpha": 1.0, "recipe": "fedavg", "seed": 0}


def drawn(path: Path, *results: PrototypeResult) -> Image.Image:
    rounds = [
        RoundResult(round=number, prototypes={"mlp:fp32": result, "cnn:w1": ANSWERED}, seconds=1.0)
        for number, result in enumerate(results, start=1)
    ]
    draw_curves(Run(config=CONFIG, fleet=[], rounds=rounds), path)
    return Image.open(path).convert("RGB")


def test_the_figure_shows_what_the_run_holds(tmp_path: Path) -> None:
    good = drawn(tmp_path / "good.png", ANSWERED, ANSWERED)
    bad = drawn(tmp_path / "bad.png", ANSWERED, replace(ANSWERED, accuracy=0.1))
    assert good.size == bad.size == (1425, 600)
    assert good.tobytes() != bad.tobytes()


def test_a_prototype_of_which_nobody_answered_is_drawn_too(tmp_path: Path) -> None:
    silent = replace(ANSWERED, devices=0, bytes_up=0)
    assert drawn(tmp_path / "silent.png", ANSWERED, silent).size == (1425, 600)


def test_long_names_of_prototypes_and_data_fit(tmp_path: Path) -> None:
    long = {f"{'a_very_long_name_' * 8}{n}:fp32": ANSWERED for n in range(2)}
    path = tmp_path / "curves.png"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "constrained_layout not applied": nothing fits any more
        config = {**CONFIG, "dataset": "/a/" + "very/" * 60 + "x.npz"}
        draw_curves(Run(config=config, fleet=[], rounds=[RoundResult(round=1, prototypes=long, seconds=1.0)]), path)
    assert path.stat().st_size > 0
