"""fleet.toml: what it resolves to, and every mistake in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.config.fleet import check_fleet_config, load_fleet_config
from core.errors import ConfigError
from core.local_defaults import auto_lr
from edge_agent.child.inputs import local_training
from edge_agent.training.params import DEFAULTS, LocalTraining
from fleet.virtual.config import VirtualTime
from tests.aggregator.scripted import key_of, write_fleet
from transport.config import BrokerConfig
from wire.keys import public_key_hex

pytestmark = pytest.mark.light
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "fleet.toml"


def written(folder: Path, **tables: str) -> Path:
    return write_fleet(folder, BrokerConfig(), ["pi-0"], **tables)


def test_the_example_is_valid_and_holds_every_default(tmp_path: Path) -> None:
    config = load_fleet_config(EXAMPLE, environ={})
    bare = tmp_path / "fleet.toml"
    bare.write_text(
        '[fleet]\nid = "greenhouse"\n[state]\ndir = "state"\nkey = "aggregator.key"\n'
        "[task]\ninput_shape = [1, 8, 8]\nclasses = 10\n"
        '[prototypes]\nnames = ["cnn:fp32", "mlp:fp32", "cnn:w1"]\n'
    )
    least = load_fleet_config(bare, environ={})
    for name in ("round", "hyper", "recipe", "limits", "seed", "broker", "task", "log", "keep_rounds"):
        assert getattr(config, name) == getattr(least, name), name


def test_it_resolves_paths_prototypes_and_keys(tmp_path: Path) -> None:
    config = load_fleet_config(written(tmp_path, prototypes='!names = ["cnn", "mlp:w1"]'), environ={})
    assert config.prototypes == ("cnn:fp32", "mlp:w1")
    assert config.state == tmp_path / "state"
    assert config.task.input_shape == (1, 8, 8)
    assert str(config.spec("mlp:w1")) == "mlp:w1"
    assert {d: public_key_hex(k) for d, k in config.devices.items()} == {
        "pi-0": public_key_hex(key_of("pi-0").public_key())
    }
    assert (config.hyper.epochs, config.hyper.steps, config.hyper.seed) == (DEFAULTS.epochs, None, 3)


def test_a_setting_comes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    environ = {"EDGESTILL_AGGREGATOR_ROUND_ROUNDS": "7", "EDGESTILL_BROKER_PORT": "1999"}
    assert load_fleet_config(path, environ={}).round.rounds == 2
    config = load_fleet_config(path, environ=environ)
    assert (config.round.rounds, config.broker.port) == (7, 1999)
    config = load_fleet_config(path, ["round.rounds=9", "broker.port=2000", "train.prox=0.1"], environ=environ)
    assert (config.round.rounds, config.broker.port, config.hyper.extra["prox"]) == (9, 2000, 0.1)
    assert load_fleet_config(path, ["task.input_shape=3x32x32"], environ={}).task.input_shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"round": "round = 3"}, r"\[round\]: unknown key 'round'; did you mean 'rounds'\?"),
        ({"rounds": "rounds = 3"}, r"unknown table \[rounds\]; did you mean 'round'\?"),
        ({"fleet": '!id = "Green House"'}, "an id is 1 to 48"),
        ({"task": "!classes = 3"}, r"\[task\]: 'input_shape' is missing"),
        ({"task": "!input_shape = [0, 8]\nclasses = 3"}, "'input_shape' is '0x8'; write it like"),
        ({"prototypes": '!names = ["resnet9:w1"]'}, "'names': unknown architecture 'resnet9'; did you mean"),
        ({"prototypes": '!names = ["cnn", "cnn:fp32"]'}, "give one or more, each once"),
        ({"prototypes": "!names = []"}, "give one or more, each once"),
        ({"round": 'update = "weights"'}, "'update' is 'weights'.*known: state delta predictor onnx"),
        ({"round": "delta_bits = 3"}, "'delta_bits' is 3; give 8, 4, 2 or 1"),
        ({"round": "fraction = 0.0"}, "'fraction' is 0, which invites nobody"),
        ({"round": "target_accuracy = 0.9"}, "'target_accuracy' needs labelled samples"),
        ({"train": "epochs = 1\nsteps = 2"}, "'epochs' and 'steps' are both given"),
        ({"train": "!lr = 0.0"}, "'lr' is 0"),
        ({"train": "clip = 1e-9"}, "'clip' is 1e-09; give 0 for none, or at least 1e-06"),
        ({"train": "clip = -1.0"}, "'clip' is -1"),
        ({"train": "steps = 5\nmost_steps = 9"}, r"\[train\]: .*least_steps and most_steps go with epochs"),
        ({"train": "least_steps = 9\nmost_steps = 5"}, r"\[train\]: .*least_steps 9 is more than most_steps 5"),
        ({"devices": '!keys_dir = "nowhere"'}, "there is no folder"),
        (
            {"fusion": 'recipe = "feddistill"', "round": 'update = "delta"'},
            r"\[round\]: recipe feddistill has devices send logits; leave out update = 'delta'",
        ),
        (
            {"limits": "mb_per_minute = 63"},
            r"\[limits\]: 'mb_per_minute' is 63, less than an update may have; give 64 or",
        ),
        (
            {"limits": "messages_per_minute = 976"},
            "'messages_per_minute' is 976, an update of 64 MB has 977 chunks; give",
        ),
        ({"limits": "reports_per_minute = 0"}, r"\[limits\]: 'reports_per_minute' is 0"),
        ({"fusion": '!recipe = "fedvag"'}, "'recipe' is 'fedvag'; did you mean 'fedavg'"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, tables: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load_fleet_config(written(tmp_path, **tables), environ={})
    assert "fleet.toml" in str(caught.value) or "--set" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_local_training_has_the_defaults_of_a_simulation(tmp_path: Path) -> None:
    config = load_fleet_config(written(tmp_path, train="!"), environ={})
    assert local_training(config.hyper) == DEFAULTS
    exact = load_fleet_config(written(tmp_path, train="!epochs = 3\nclip = 0\nmomentum = 0.5"), environ={})
    assert local_training(exact.hyper) == LocalTraining(
        lr=auto_lr(DEFAULTS.batch_size, 0.5), batch_size=DEFAULTS.batch_size, epochs=3, momentum=0.5
    )
    told = load_fleet_config(written(tmp_path, train="!epochs = 3\nleast_steps = 4\nlr = 0.2"), environ={})
    assert local_training(told.hyper) == replace(DEFAULTS, epochs=3, least_steps=4, most_steps=0, lr=0.2)
    assert told.to_json()["train"] | {"prox": 0} == {
        "lr": 0.2,
        "batch_size": DEFAULTS.batch_size,
        "epochs": 3,
        "steps": None,
        "momentum": DEFAULTS.momentum,
        "weight_decay": 0.0,
        "prox": 0,
        "clip": DEFAULTS.clip,
        "least_steps": 4,
        "most_steps": 0,
    }


def test_of_epochs_and_steps_the_one_that_comes_first_holds(tmp_path: Path) -> None:
    path = written(tmp_path, train="!epochs = 3\nleast_steps = 4")
    variable = {"EDGESTILL_AGGREGATOR_TRAIN_STEPS": "7"}
    hyper = load_fleet_config(path, environ=variable).hyper
    assert (hyper.epochs, hyper.steps) == (None, 7)
    hyper = load_fleet_config(path, ["train.epochs=5"], environ=variable).hyper
    assert (hyper.epochs, hyper.steps) == (5, None)
    hyper = load_fleet_config(path, ["train.steps=9"], environ={"EDGESTILL_AGGREGATOR_TRAIN_EPOCHS": "2"}).hyper
    assert (hyper.epochs, hyper.steps) == (None, 9)


def test_the_default_learning_rate_has_a_name(tmp_path: Path) -> None:
    named = load_fleet_config(written(tmp_path, train='!lr = "auto"'), environ={}).hyper
    assert named.lr == load_fleet_config(written(tmp_path, train="!"), environ={}).hyper.lr


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("round.runds=3", r"no key 'runds' in \[round\]; did you mean 'rounds'"),
        ("round.rounds=many", "EDGESTILL_AGGREGATOR_ROUND_ROUNDS is 'many', expected a whole number"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, setting: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_fleet_config(written(tmp_path), [setting], environ={})


def test_the_checked_config_is_json_without_secrets(tmp_path: Path) -> None:
    facts = check_fleet_config(written(tmp_path, broker='username = "agg"\npassword = "hidden"'))
    text = json.dumps(facts)
    assert "hidden" not in text
    assert facts["broker"]["username"] == "agg"
    assert facts["round"]["rounds"] == 2


def test_a_recipe_may_say_what_devices_send_and_are_told(tmp_path: Path) -> None:
    config = load_fleet_config(written(tmp_path, fusion='recipe = "feddistill"'), environ={})
    assert (config.update, config.hyper.extra["label_logits"]) == ("logits", 0.1)
    guided = 'recipe = "fedgen"\ngenerator = "reference"\ngenerated_kl = 0.0'
    config = load_fleet_config(written(tmp_path, fusion=guided, round='update = "predictor"'), environ={})
    assert config.update == "predictor"
    assert (config.hyper.extra["generated_weight"], config.hyper.extra["generated_kl"]) == (10.0, 0.0)


def test_a_device_may_send_four_updates_a_minute_unless_told_otherwise(tmp_path: Path) -> None:
    assert load_fleet_config(written(tmp_path), environ={}).limits.mb_per_minute == 256
    limits = load_fleet_config(written(tmp_path), ["limits.update_mb=10"], environ={}).limits
    assert (limits.mb_per_minute, limits.bytes_per_minute, limits.update_chunks) == (40, 40_000_000, 153)
    assert load_fleet_config(written(tmp_path), ["limits.mb_per_minute=64"], environ={}).limits.mb_per_minute == 64


ASYNC = 'mode = "async"\nbuffer = 3'


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"round": 'mode = "async"'}, r"\[round\]: 'mode' is 'async' without 'buffer'; give buffer = 10"),
        ({"round": "buffer = 3"}, "'buffer', 'concurrency' and 'max_staleness' are of asynchronous rounds; give mode"),
        ({"round": f'{ASYNC}\nlate = "keep"'}, "asynchronous rounds have no late updates; leave late out"),
        ({"round": f"{ASYNC}\nstaleness = -1"}, "staleness"),
        (
            {"round": ASYNC, "fusion": 'recipe = "feddistill"'},
            r"\[round\]: recipe feddistill has devices send logits, asynchronous rounds need models; give mode =",
        ),
        (
            {"round": ASYNC, "fusion": 'recipe = "local"'},
            "recipe local has devices send none, asynchronous rounds need",
        ),
    ],
)
def test_what_cannot_be_asynchronous_is_refused_in_one_line(tmp_path: Path, tables: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        load_fleet_config(written(tmp_path, **tables), environ={})
    assert "\n" not in str(refused.value)


def test_the_settings_of_asynchronous_rounds_have_the_names_and_defaults_of_virtual_time(tmp_path: Path) -> None:
    own = load_fleet_config(written(tmp_path, round=ASYNC), environ={}).round
    virtual = VirtualTime(boards=(), buffer=3)
    for name in ("buffer", "concurrency", "staleness", "max_staleness"):
        assert getattr(own, name) == getattr(virtual, name), name
