"""Settings as users write them: which there are, where their values come from, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.training.params import DEFAULTS
from fleet.simulation.config import SimulationConfig
from fleet.simulation.settings.panels import PANELS
from fleet.simulation.settings.table import SETTINGS, from_environment, read_file, written

pytestmark = pytest.mark.light


def test_settings_are_what_a_configuration_has_and_no_business_of_a_command() -> None:
    assert not {"out_dir", "out", "force", "quiet", "json", "dry_run", "resume", "training", "boards"} & SETTINGS.keys()
    assert not {"score_ensemble", "source_fraction"} & SETTINGS.keys(), "for programs alone"
    assert {"recipe", "seed", "local_epochs", "fusion", "option", "deadline", "virtual_clock"} <= SETTINGS.keys()
    assert {setting.kind for setting in SETTINGS.values()} == {str, int, float, bool, dict, tuple, Path}
    assert all(setting.help for setting in SETTINGS.values())


def test_settings_come_panel_by_panel() -> None:
    panels = [PANELS.index(setting.extra["panel"]) for setting in SETTINGS.values()]
    assert panels == sorted(panels)
    assert set(panels) == set(range(len(PANELS)))


def test_defaults_are_those_of_the_configuration_as_they_are_written() -> None:
    usual = SimulationConfig()
    assert SETTINGS["rounds"].default == usual.rounds
    assert SETTINGS["devices"].default == str(usual.devices)
    assert SETTINGS["prototypes"].default == ",".join(usual.prototypes)
    assert (SETTINGS["batch_devices"].default, SETTINGS["engine"].default) == ("auto", None)
    assert (SETTINGS["momentum"].default, SETTINGS["lr"].default) == (DEFAULTS.momentum, None)


def test_a_table_has_dashes_or_underscores_and_texts_as_lists_or_numbers() -> None:
    table = {
        "local-epochs": 2,
        "devices": 6,
        "prototypes": ["cnn:w1", "mlp:fp32"],
        "alpha": 1,
        "source_classes": [0, 2],
    }
    assert written(table, "x") == {
        "local_epochs": 2,
        "devices": "6",
        "prototypes": "cnn:w1,mlp:fp32",
        "alpha": 1.0,
        "source_classes": "0,2",
    }
    assert written({"fusion": {"steps": 5, "teachers": ["a", "b"]}}, "x") == {"fusion": {"steps": 5, "teachers": "a,b"}}
    assert written({"trace": "t.csv"}, "x") == {"trace": Path("t.csv")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[simulate]\nrouns = 3", r"x.toml \[simulate\]: unknown setting 'rouns'; did you mean 'rounds'\?"),
        ("[simulate]\nlearning_rate = 0.1", "unknown setting 'learning_rate'; did you mean 'lr'"),
        ("[simulate]\nout = 'run'", "'out' is no setting of a run; give it on the command line, as --out"),
        ("[simulate]\ndry-run = true", "'dry-run' is no setting of a run; give it on the command line, as --dry-run"),
        ("[simulate]\nzzz = true", "unknown setting 'zzz'; known: the flags of 'edgestill simulate'"),
        ("[simulate]\nrounds = 0", r"\[simulate\]: 'rounds' is 0, expected a whole number of at least 1"),
        ("[simulate]\nrounds = '3'", "'rounds' is '3', expected a whole number"),
        ("[simulate]\nalpha = nan", "'alpha' is nan, expected a number"),
        ("[simulate]\nfusion = 'steps=3'", "'fusion' is 'steps=3', expected a table such as"),
        ("[grid]\nseed = [1]", r"unknown table 'grid'; known: \[simulate\]"),
        ("local-epochs = 2", r"'local-epochs'; settings stand in a table: write \[simulate\] above them"),
        ("simulate = 3", r"'simulate' is 3, expected a table \[simulate\]"),
        ("[simulate", "x.toml, "),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read_file(tmp_path / "x.toml")
    assert "\n" not in str(caught.value)


def test_variables_are_texts_of_their_settings() -> None:
    said = {"ROUNDS": "3", "LOCAL_EPOCHS": "2", "VIRTUAL_CLOCK": "yes", "DEVICES": "rpi4:3", "ALPHA": "1e-1"}
    environ = {f"EDGESTILL_SIMULATE_{name}": text for name, text in said.items()}
    assert from_environment(environ).values == {
        "rounds": 3,
        "local_epochs": 2,
        "virtual_clock": True,
        "devices": "rpi4:3",
        "alpha": 0.1,
    }
    assert from_environment({"EDGESTILL_DATA": "x"}).values == {}
    with pytest.raises(ConfigError, match=r"^EDGESTILL_SIMULATE_ROUND: .* did you mean 'EDGESTILL_SIMULATE_ROUNDS'"):
        from_environment({"EDGESTILL_SIMULATE_ROUND": "3"})
    with pytest.raises(ConfigError, match=r"did you mean 'EDGESTILL_SIMULATE_LR'"):
        from_environment({"EDGESTILL_SIMULATE_LEARNING_RATE": "3"})
    with pytest.raises(ConfigError, match=r"^EDGESTILL_SIMULATE_OUT: .* give it on the command line, as --out"):
        from_environment({"EDGESTILL_SIMULATE_OUT": "run"})
    with pytest.raises(ConfigError, match=r"^EDGESTILL_SIMULATE_FUSION: no setting has this variable"):
        from_environment({"EDGESTILL_SIMULATE_FUSION": "steps=3"})
    with pytest.raises(ConfigError, match=r"^EDGESTILL_SIMULATE_ROUNDS is 'many', expected a whole number$"):
        from_environment({"EDGESTILL_SIMULATE_ROUNDS": "many"})
