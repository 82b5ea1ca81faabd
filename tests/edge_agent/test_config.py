"""agent.toml: what is refused, and which value wins."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.config import (
    TABLES,
    AgentConfig,
    check_agent_config,
    parse_settings,
    read_agent_config,
)
from transport.config import BROKER_KEYS
from wire.keys import generate_key, public_key_hex, save_public_key

pytestmark = pytest.mark.light

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent.toml"
HEX = "ab" * 32
SMALL = f"""
[agent]
fleet = "f"
device = "pi-1"
state_dir = "state"
[keys]
private = "pi-1.pem"
aggregator = "{HEX}"
[model]
prototype = "cnn:w1"
[data]
path = "samples.npz"
"""


def read(folder: Path, text: str, *settings: str, **environ: str) -> AgentConfig:
    path = folder / "agent.toml"
    path.write_text(text)
    return read_agent_config(path, settings=settings, environ=environ)


def test_the_example_is_complete_and_right() -> None:
    config = read_agent_config(EXAMPLE, environ={})
    assert config.device == "pi-07"
    assert config.data.refuse_worse
    text = EXAMPLE.read_text()
    for key in [key for table in TABLES.values() for key in table] + [k for k in BROKER_KEYS if k != "password"]:
        assert f"{key} = " in text, f"the example does not show {key}"


def test_defaults_and_relative_paths(tmp_path: Path) -> None:
    config = read(tmp_path, SMALL)
    assert config.state_dir == tmp_path / "state"
    assert config.private_key == tmp_path / "pi-1.pem"
    assert config.data.path == tmp_path / "samples.npz"
    assert (config.broker.host, config.broker.port) == ("127.0.0.1", 1883)
    assert (config.train.threads, config.train.memory_mb, config.update.kind) == (1, None, "job")


def test_floats_follow_the_precision_unless_given(tmp_path: Path) -> None:
    assert read(tmp_path, SMALL).floats == "fp16"
    assert read(tmp_path, SMALL.replace("cnn:w1", "cnn:fp32")).floats == "fp32"
    assert read(tmp_path, SMALL, "update.floats=fp32").floats == "fp32"


def test_setting_then_environment_then_file_then_default(tmp_path: Path) -> None:
    text = SMALL + "[train]\nthreads = 2\n"
    assert read(tmp_path, SMALL).train.threads == 1
    assert read(tmp_path, text).train.threads == 2
    assert read(tmp_path, text, EDGESTILL_AGENT_TRAIN_THREADS="3").train.threads == 3
    assert read(tmp_path, text, "train.threads=4", EDGESTILL_AGENT_TRAIN_THREADS="3").train.threads == 4


def test_settings_and_environment_reach_the_broker(tmp_path: Path) -> None:
    assert read(tmp_path, SMALL, "broker.port=1999").broker.port == 1999
    assert read(tmp_path, SMALL, EDGESTILL_BROKER_HOST="b.example").broker.host == "b.example"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL + "[trian]\nthreads = 2", r"unknown table \[trian\]; did you mean 'train'"),
        (SMALL + "[train]\nthread = 2", "unknown key 'thread'; did you mean 'threads'"),
        (SMALL + "[train]\nthreads = 0", "'threads' is 0"),
        (SMALL + "[train]\nmemory_mb = 1.5", "a whole number"),
        (SMALL + "[update]\nkind = 'stat'", "did you mean 'state'"),
        (SMALL + "[update]\nkind = 'delta'", "delta_bits is not given"),
        (SMALL + "[update]\ndelta_bits = 3", "give 1, 2, 4 or 8"),
        (SMALL.replace('"samples.npz"', '"samples.npz"\nrefuse_worse = true'), "set validation"),
        (SMALL.replace("pi-1", "PI 1"), "an id is"),
        (SMALL.replace('"pi-1"', '"all"'), "reserved"),
        (SMALL.replace("cnn:w1", "cn:w1"), "did you mean 'cnn'"),
        (SMALL.replace("cnn:w1", "cnn:w3"), "w3"),
        (SMALL.replace('device = "pi-1"\n', ""), "'device' is missing"),
        (SMALL + "[broker]\nprot = 1", "unknown key 'prot'"),
        (SMALL + "x = = 1", "line 13"),
    ],
)
def test_mistakes_are_told_in_one_line_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "agent.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("threads=2", "write it as table.key=value"),
        ("train.threads", "write it as table.key=value"),
        ("trian.threads=2", "did you mean 'train'"),
        ("train.thread=2", "did you mean 'threads'"),
        ("broker.hots=x", "did you mean 'host'"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_settings([setting])


def test_the_aggregator_is_given_in_hex_or_by_a_file(tmp_path: Path) -> None:
    key = generate_key().public_key()
    save_public_key(key, tmp_path / "aggregator.pub")
    by_file = read(tmp_path, SMALL.replace(HEX, "aggregator.pub"))
    by_hex = read(tmp_path, SMALL.replace(HEX, public_key_hex(key).upper()))
    assert public_key_hex(by_file.aggregator_key()) == public_key_hex(by_hex.aggregator_key()) == public_key_hex(key)


def test_a_checked_config_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESTILL_BROKER_PASSWORD", "hunter2")
    path = tmp_path / "agent.toml"
    path.write_text(SMALL + '[broker]\nusername = "me"\n')
    facts = check_agent_config(path)
    assert "hunter2" not in str(facts)
    assert facts["broker"]["password"] == "(given)"
    assert facts["agent"]["state_dir"] == str(tmp_path / "state")
    assert facts["keys"]["aggregator"] == HEX
    assert facts["train"]["threads"] == 1
    assert set(facts) == {*TABLES, "broker"}
    for name, keys in TABLES.items():
        assert set(facts[name]) == set(keys)


def test_the_compute_device_is_checked_without_torch(tmp_path: Path) -> None:
    assert read(tmp_path, SMALL).train.device == "auto"
    for device in ("cpu", "cuda", "cuda:1"):
        assert read(tmp_path, SMALL.replace("[model]", f'[train]\ndevice = "{device}"\n[model]')).train.device == device
    with pytest.raises(ConfigError, match=r"'device' is 'gpu'.*give auto, cpu, cuda, cuda:1 or mps"):
        read(tmp_path, SMALL.replace("[model]", '[train]\ndevice = "gpu"\n[model]'))
    light = SMALL.replace("[model]", '[train]\nmode = "light"\ndevice = "cuda"\n[model]')
    with pytest.raises(ConfigError, match="device is cuda, but a light device trains on cpu"):
        read(tmp_path, light.replace('prototype = "cnn:w1"', 'prototype = "cnn:w1"\ngraph = "cnn.onnx"'))


def test_a_light_device_needs_a_graph_and_sends_its_predictor(tmp_path: Path) -> None:
    light = SMALL.replace("[model]", '[train]\nmode = "light"\n[model]')
    with pytest.raises(ConfigError, match=r"mode is light, which needs \[model\] graph"):
        read(tmp_path, light)
    whole = light.replace('prototype = "cnn:w1"', 'prototype = "cnn:w1"\ngraph = "cnn.onnx"')
    assert read(tmp_path, whole).graph == tmp_path / "cnn.onnx"
    assert (read(tmp_path, whole).refresh, read(tmp_path, whole, "model.refresh=never").refresh) == ("always", "never")
    with pytest.raises(ConfigError, match="REFRESH is 'once'; known: always offers never"):
        read(tmp_path, whole, "model.refresh=once")
    with pytest.raises(ConfigError, match="a light device sends its predictor alone"):
        read(tmp_path, whole, "update.kind=state")


def test_label_counts_may_be_noised_and_binned(tmp_path: Path) -> None:
    data = read(tmp_path, SMALL, "data.count_epsilon=0.5", "data.count_bins=10").data
    assert (data.count_epsilon, data.count_bins) == (0.5, 10)
    with pytest.raises(ConfigError, match=r"COUNT_EPSILON is 0\.0"):
        read(tmp_path, SMALL, "data.count_epsilon=0")
