"""Which settings an aggregator may change, and how the rest is refused."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.settings import replace
from edge_agent.remote_settings.allowed import SETTABLE, check_setting, sort_out, with_settings
from tests.edge_agent.remote_settings.test_trial import base

pytestmark = pytest.mark.light


@pytest.mark.parametrize("name", SETTABLE)
def test_every_settable_key_is_one_of_agent_toml_and_can_be_set(tmp_path: Path, name: str) -> None:
    text = {"format": "json", "level": "error", "kind": "state", "floats": "fp16", "delta_bits": "8"}
    text |= {"device": "cuda:1", "amp": "bf16"}
    section, _, key = name.partition(".")
    changed = with_settings(base(tmp_path), {name: text.get(key, "100" if key != "nice" else "1")})
    assert getattr(getattr(changed, section), key) == check_setting(
        name, text.get(key, "100" if key != "nice" else "1")
    )
    assert changed != base(tmp_path)


def test_a_light_board_refuses_a_gpu_and_takes_the_rest(tmp_path: Path) -> None:
    config = base(tmp_path)
    light = replace(config, graph=tmp_path / "cnn.onnx", train=replace(config.train, mode="light"))
    good, refused = sort_out(light, {"train.device": "cuda", "train.threads": "2", "update.floats": "fp16"})
    assert good == {"train.threads": "2", "update.floats": "fp16"}
    assert refused == {"train.device": "[train]: device is cuda, but a light device trains on cpu"}
    assert sort_out(light, {"train.device": "cpu"}) == ({"train.device": "cpu"}, {})


def test_a_value_of_the_wrong_kind_is_named() -> None:
    with pytest.raises(ConfigError, match=r"train\.device.*give auto, cpu, cuda, cuda:1 or mps"):
        check_setting("train.device", "gpu")
    with pytest.raises(ConfigError, match=r"train\.threads is 'many', expected a whole number"):
        check_setting("train.threads", "many")
    with pytest.raises(ConfigError, match=r"update\.delta_bits is 3; give 1, 2, 4 or 8"):
        check_setting("update.delta_bits", "3")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent.fleet", "who a device is, and where it keeps its state is for agent.toml to say"),
        ("broker.host", "which broker it calls is for agent.toml to say"),
        ("keys.aggregator", "whom it trusts"),
        ("data.path", "where its samples lie"),
        ("train.mode", "how it trains"),
        ("train.thread", "no such setting; did you mean 'train.threads'"),
        ("nonsense", "no such setting; known: log.format log.level"),
    ],
)
def test_what_belongs_to_the_board_stays_with_it(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_setting(name, "x")


def test_a_board_that_sends_predictors_alone_is_not_made_to_send_more(tmp_path: Path) -> None:
    config = base(tmp_path, '[update]\nkind = "predictor"')
    with pytest.raises(ConfigError, match="the rest of the model stays on the board"):
        with_settings(config, {"update.kind": "state"})
    assert with_settings(config, {"update.kind": "predictor"}) == config


def test_good_settings_are_taken_beside_refused_ones(tmp_path: Path) -> None:
    settings = {"train.threads": "2", "train.nice": "99", "agent.fleet": "other"}
    good, refused = sort_out(base(tmp_path), settings)
    assert good == {"train.threads": "2"}
    assert sorted(refused) == ["agent.fleet", "train.nice"]
    kept = base(tmp_path, '[update]\nkind = "predictor"')
    good, refused = sort_out(kept, {"update.kind": "state", "update.floats": "fp16", "log.level": "debug"})
    assert good == {"log.level": "debug"}
    assert sorted(refused) == ["update.floats", "update.kind"]


def test_a_reason_fits_the_message_that_carries_it(tmp_path: Path) -> None:
    _, refused = sort_out(base(tmp_path), {f"train.{'x' * 150}": "1"})
    assert all(len(reason) <= 200 for reason in refused.values())
