"""sweep.toml: which runs it means, and what is refused."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from fleet.sweep.grid import Sweep, names, read_sweep, run_name


def read(folder: Path, text: str) -> Sweep:
    path = folder / "sweep.toml"
    path.write_text(text)
    return read_sweep(path)


def test_every_combination_is_a_run_and_seeds_come_last(tmp_path: Path) -> None:
    sweep = read(tmp_path, '[grid]\nseed = [0, 1]\nrecipe = ["fedavg", "feddf"]')
    assert sweep.keys == ("seed", "recipe")
    assert [(p["recipe"], p["seed"]) for p in sweep.points] == [
        ("fedavg", 0),
        ("feddf", 0),
        ("fedavg", 1),
        ("feddf", 1),
    ]


def test_settings_are_what_is_shared_and_what_is_the_point_s(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        '[simulate]\nlocal-epochs = 3\nalpha = 1\nfusion = { steps = 50 }\nprototypes = ["cnn:w1", "mlp:fp32"]\n'
        "[grid]\nfusion.lr = [0.1, 0.2]",
    )
    first, second = (sweep.settings(point) for point in sweep.points)
    assert first == {
        "local_epochs": 3,
        "alpha": 1.0,
        "fusion": {"steps": 50, "lr": 0.1},
        "prototypes": "cnn:w1,mlp:fp32",
    }
    assert second["fusion"] == {"steps": 50, "lr": 0.2}, "points do not see each other's tables"
    assert sweep.shared["fusion"] == {"steps": 50}


def test_the_grid_comes_before_what_all_runs_share(tmp_path: Path) -> None:
    sweep = read(tmp_path, "[simulate]\nlocal-epochs = 2\nseed = 1\n[grid]\nlocal-steps = [5, 7]")
    assert [sweep.settings(point) for point in sweep.points] == [{"seed": 1, "local_steps": n} for n in (5, 7)]
    assert sweep.layer(sweep.points[0]).places["local_steps"].endswith("sweep.toml [grid]: 'local-steps'")


def test_a_file_without_a_grid_is_one_run(tmp_path: Path) -> None:
    assert read(tmp_path, "[simulate]\nseed = 3").points == ({},)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[grdi]\n", r"unknown table 'grdi'; did you mean 'grid'"),
        ("[grid]\nrecip = ['fedavg']", r"sweep.toml \[grid\]: unknown setting 'recip'; did you mean 'recipe'"),
        ("[simulate]\nlocal-epoch = 3", r"\[simulate\]: unknown setting 'local-epoch'; did you mean 'local_epochs'"),
        ("[simulate]\nquiet = true", "'quiet' is no setting of a run"),
        ("[grid]\nalpha = 0.1", r"'alpha' is 0.1, expected a list"),
        ("[grid]\nalpha = []", "expected a list"),
        ("[grid]\nalpha = ['x']", "'alpha' is 'x', expected a number"),
        ("[simulate]\nseed = 1.5", "'seed' is 1.5, expected a whole number"),
        ("[simulate]\nseed = true", "'seed' is True, expected a whole number"),
        ("[simulate]\nvirtual-clock = 1", "'virtual-clock' is 1, expected true or false"),
        ("[simulate]\nlocal-steps = 1\nlocal_steps = 2", "'local_steps' is given twice"),
        ("[simulate]\nrounds = 0", "'rounds' is 0, expected a whole number of at least 1"),
        ("[grid]\ndevices = [true]", "'devices' is True; give a text"),
        ("[grid]\nseed = [0, 0]", "'seed': a value is given twice"),
        ("[simulate]\nseed = 1\n[grid]\nseed = [0]", "'seed' is in .simulate. and in .grid."),
        ("[simulate]\nfusion = {lr = 1}\n[grid]\nfusion.lr = [2]", "'fusion.lr' is in .simulate. and in .grid."),
        ("[simulate]\nfusion = 3", "'fusion' is 3, expected a table"),
        ("[grid]\nfusion = [3]", "write 'fusion' as fusion.NAME"),
        ("[simulate]\nfusion = {lr = 1979-05-27}", "expected a text, a number"),
        ("[grid]\nseed = [0", "sweep.toml, "),
        (f"[grid]\nseed = {list(range(101))}\nalpha = {list(range(1, 102))}", "10,201 runs; give at most 10,000"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_names_are_names_of_folders_and_differ() -> None:
    assert run_name({"recipe": "feddf", "alpha": 0.1}) == "recipe=feddf,alpha=0.1"
    assert run_name({}) == "run"
    odd = [{"attack": "a:1"}, {"attack": "a/1"}, {"attack": "a 1"}, {"attack": "x" * 200}, {"attack": "x" * 201}]
    found = names(odd)
    assert len(found) == 5
    assert all("/" not in name and len(name) < 120 for name in found)
    assert list(found.values()) == odd
