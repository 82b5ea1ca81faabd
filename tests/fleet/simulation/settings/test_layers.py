"""Settings of several places: which hold, and where a refused one was written."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError, EdgestillError
from fleet.simulation.settings.configure import configure
from fleet.simulation.settings.layers import NEEDED, PAIRS, Layer, about, overlay
from fleet.simulation.settings.table import SETTINGS, TIME, from_environment, read_file

pytestmark = pytest.mark.light


def file(folder: Path, text: str) -> Layer:
    (folder / "run.toml").write_text(f"[simulate]\n{text}\n")
    return read_file(folder / "run.toml")


def test_the_last_layer_comes_first_with_its_place() -> None:
    told = overlay(Layer({"rounds": 1, "seed": 2}, {"rounds": "a", "seed": "a"}), Layer({"rounds": 3}, {"rounds": "b"}))
    assert told == Layer({"rounds": 3, "seed": 2}, {"rounds": "b", "seed": "a"})
    assert overlay(told, Layer({"seed": 4})).places == {"rounds": "b"}, "a flag has none"


@pytest.mark.parametrize(("low", "high"), [*PAIRS, *(pair[::-1] for pair in PAIRS)])
def test_a_setting_ends_those_of_earlier_layers_that_it_excludes(low: str, high: str) -> None:
    told = overlay(Layer({low: 2}, {low: "run.toml"}), Layer({high: 7}))
    assert told == Layer({high: 7}, {})
    both = overlay(Layer(), Layer({low: 2, high: 7}))
    with pytest.raises(ConfigError, match="not both"):
        configure(both.values)


def test_a_flag_wins_over_the_file_s_other_way_to_say_how_long() -> None:
    environment = from_environment({"EDGESTILL_SIMULATE_LOCAL_STEPS": "7"})
    config = configure(overlay(Layer({"local_epochs": 2}), environment).values)
    assert (config.training.epochs, config.training.steps) == (None, 7)
    config = configure(overlay(Layer(), environment, Layer({"local_epochs": 3})).values)
    assert (config.training.epochs, config.training.steps) == (3, None)


def test_what_needs_a_setting_that_a_later_layer_takes_away_is_dropped() -> None:
    cluster = Layer({"engine": "ray", "address": "head:6379"})
    assert overlay(cluster, Layer({"engine": "inline"})).values == {"engine": "inline"}
    assert overlay(cluster, Layer({"engine": "ray"})).values["address"] == "head:6379"
    timed = Layer({"virtual_clock": True, "deadline": 60.0})
    assert overlay(timed, Layer({"virtual_clock": False})).values == {"virtual_clock": False}
    assert overlay(Layer(), Layer({"engine": "inline", "address": "x"})).values["address"] == "x", "refused later"


def test_all_settings_of_virtual_time_need_it() -> None:
    needing = {key: others for key, _, others in NEEDED}
    assert {"virtual_clock", *needing["virtual_clock"]} == {"virtual_clock", *TIME}
    assert {key for keys in needing.values() for key in keys} <= SETTINGS.keys()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("fraction = 2", "'fraction' 2; give a number above 0"),
        ("recipe = 'fedvag'", "'recipe': unknown recipe 'fedvag'"),
        ("prototypes = 'cn:w1'", "'prototypes': unknown architecture 'cn'"),
        ("prototypes = []", "'prototypes': no prototypes"),
        ("devices = 0", "'devices' 0; give at least 1"),
        ("devices = 'rpi9:2'", "'devices': no board 'rpi9'"),
        ("devices = 2", "'devices': 2 devices for 3 prototypes"),
        ("attack = 'fauly:2'", "'attack' 'fauly:2': unknown attack"),
        ("attack = 'faulty:99'", "'attack': 99 attackers, but 12 devices"),
        ("fusion = { stepz = 3 }", "'fusion' 'stepz=3': no key 'stepz'; did you mean 'steps'?"),
        ("recipe = 'feddf'\nfusion = { steps = -1 }", "'fusion': "),
        ("option = { min_size = 'x' }", "'option': option 'min_size=x'"),
        ("partition = 'irchlet'", "'partition': unknown partition"),
        ("momentum = 1.5", "'momentum': local training: momentum 1.5"),
        ("lr = 5000", "'lr' is 5000; give a number above 0"),
        ("lr = 'fast'", "'lr' is 'fast'; give a number above 0 and at most 1000, such as 0.03, or auto"),
        ("clip = 1e-9", "'clip': local training: clip 1e-09"),
        ("fast = 'maybe'", "'fast': local training: fast is 'maybe'"),
        ("engine = 'inlin'", "'engine' 'inlin'; known: inline processes ray; did you mean 'inline'"),
        ("transport = 'pigeon'", "'transport' 'pigeon'; known"),
        ("score-devices = 'x'", "'score-devices' 'x'; known"),
        ("address = 'a:1'", "'address' a:1 requires --engine ray"),
        ("source-classes = 'a'", "'source-classes' 'a': give class numbers"),
        ("batch-devices = 'some'", "'batch-devices' 'some': give auto"),
        ("deadline = 3", "'deadline' requires --virtual-clock"),
        ("virtual-clock = true\nquorum = 0", "'quorum' 0; give"),
        ("virtual-clock = true\navailability = 0", "'availability': "),
        ("virtual-clock = true\ndropout = 2", "'dropout': "),
        ("virtual-clock = true\ntrace = 'none.csv'", "'trace': none.csv: not a readable trace"),
        ("virtual-clock = true\nhardware = 'none.toml'", "none.toml: "),
        ("virtual-clock = true\nbuffer = 99", "'buffer' 99: there are 12 devices"),
        ("local-epochs = 1\nlocal-steps = 1", "'local-steps': give either"),
    ],
)
def test_a_setting_of_a_file_is_refused_with_its_place(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(EdgestillError) as caught:
        settle(file(tmp_path, line))
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'run.toml'} [simulate]: "), text
    assert says in text


def settle(told: Layer) -> None:
    with told.located():
        configure(told.values)


def test_a_variable_is_its_own_place_and_a_flag_needs_none() -> None:
    told = from_environment({"EDGESTILL_SIMULATE_FRACTION": "2"})
    with pytest.raises(ConfigError, match=r"^EDGESTILL_SIMULATE_FRACTION 2; give a number"), told.located():
        configure(told.values)
    flagged = overlay(told, Layer({"fraction": 3.0}))
    with pytest.raises(ConfigError, match=r"^--fraction 3; give a number"), flagged.located():
        configure(flagged.values)


def test_the_first_of_several_settings_that_was_given_is_named() -> None:
    told = Layer({"prototypes": "a"}, {"prototypes": "x.toml"})
    with pytest.raises(ConfigError, match=r"^x.toml: too few"), told.located(), about("devices", "prototypes"):
        raise ConfigError("too few")
    with pytest.raises(ConfigError, match=r"^other$"), told.located(), about("outer"), about("devices"):
        raise ConfigError("other")
