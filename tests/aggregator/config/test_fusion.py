"""[fusion] of fleet.toml: recipe, overrides, what the aggregator brings; from file, environment and --set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aggregator.config.fleet import FleetConfig, load_fleet_config
from aggregator.recipes.overrides import read_recipe
from core.errors import ConfigError
from tests.aggregator.scripted import write_fleet
from transport.config import BrokerConfig

pytestmark = pytest.mark.light


def loaded(folder: Path, fusion: str, settings: tuple[str, ...] = (), **tables: str) -> FleetConfig:
    path = write_fleet(folder, BrokerConfig(), ["pi-0"], fusion=fusion, **tables)
    return load_fleet_config(path, settings, environ={})


def test_the_compute_device_is_checked_without_torch(tmp_path: Path) -> None:
    fusion = loaded(tmp_path, 'device = "cuda:1"\namp = "bf16"').fusion
    assert (fusion.device, fusion.amp) == ("cuda:1", "bf16")
    with pytest.raises(ConfigError, match=r"'device' is 'gpu'.*give auto, cpu, cuda, cuda:1 or mps"):
        loaded(tmp_path, 'device = "gpu"')
    with pytest.raises(ConfigError, match="'amp' is 'fp16'"):
        loaded(tmp_path, 'amp = "fp16"')


def test_fields_of_the_recipe_are_flat_keys(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        'recipe = "fedrad"\nsource = "pool.npz"\nsource_classes = [0, 2]\nsteps = 200\nweigh = "uniform"\n'
        'screen = ["finite"]\nkrum_f = 2\noptions = { mine = 0.5 }\nteachers = ["big.onnx"]',
    )
    fusion = config.fusion
    assert (fusion.name, fusion.source, fusion.source_classes) == ("fedrad", str(tmp_path / "pool.npz"), (0, 2))
    assert fusion.teachers == (tmp_path / "big.onnx",)
    recipe = fusion.recipe
    assert (recipe.distill.steps, recipe.weigh, recipe.screen) == (200, "uniform", ("finite",))
    assert recipe.options == {"krum_f": 2, "mine": 0.5}
    assert read_recipe(config.recipe) == recipe
    facts = json.loads(json.dumps(config.to_json()["fusion"]))
    assert (facts["recipe"], facts["steps"], facts["teachers"]) == ("fedrad", 200, [str(tmp_path / "big.onnx")])


def test_the_environment_and_settings_reach_every_field(tmp_path: Path) -> None:
    path = write_fleet(tmp_path, BrokerConfig(), ["pi-0"], fusion='recipe = "feddf"\nsteps = 200')
    environ = {"EDGESTILL_AGGREGATOR_FUSION_STEPS": "300", "EDGESTILL_AGGREGATOR_FUSION_SOURCE": "noise"}
    config = load_fleet_config(path, ["fusion.lr=0.5", "fusion.source_classes=1,2"], environ=environ)
    assert (config.fusion.recipe.distill.steps, config.fusion.recipe.distill.lr) == (300, 0.5)
    assert (config.fusion.source, config.fusion.source_classes) == ("noise", (1, 2))


def test_devices_get_what_the_recipe_tells_them_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    plain = loaded(
        tmp_path, 'recipe = "fedavg"'
    ).hyper.extra  # what every device is told: clipping, bounds of its steps
    assert set(plain) == {"clip", "least_steps", "most_steps"}
    assert loaded(tmp_path, 'recipe = "fedprox"').hyper.extra == {"prox": 0.003, **plain}
    assert loaded(tmp_path, 'recipe = "fedprox"', train="prox = 0.5").hyper.extra == {"prox": 0.5, **plain}
    assert loaded(tmp_path, 'recipe = "fedprox"', train="prox = 0.0").hyper.extra == plain


@pytest.mark.parametrize(
    ("fusion", "words"),
    [
        ('recipe = "feddf"', "recipe feddf needs unlabeled samples; give 'source'"),
        ('recipe = "fedavg"\nstep = 3', "unknown key 'step'; did you mean 'steps'"),
        ('steps = "3"', "'steps' is '3', expected a whole number"),
        ('teach = "mean"', "'teach': no such part 'mean'"),
        ('screen = ["drop-worst"]', "drop-worst, which needs labelled samples"),
        ('screen = ["drop-worst"]\nvalidation = "none"', "drop-worst, which needs labelled samples"),
        ('source_classes = ["a"]', "'source_classes' is .* give class numbers"),
        ('recipe = "fedbe"\nsource = "noise"\nsamples = 0', "'samples' is 0; say how many"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, fusion: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        loaded(tmp_path, fusion)
    assert "fleet.toml [fusion]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_drop_worst_is_content_with_samples_of_its_own(tmp_path: Path) -> None:
    config = loaded(tmp_path, 'screen = ["drop-worst"]\nvalidation = "own.npz"')
    assert config.fusion.validation == str(tmp_path / "own.npz")


def test_a_ray_cluster_is_given_by_its_address_and_needs_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    present: list[object] = [object(), None]
    monkeypatch.setattr("aggregator.config.fusion.find_spec", lambda _: present[0])
    fusion = loaded(tmp_path, 'engine = "ray"\naddress = "10.0.0.5:6379"').fusion
    assert (fusion.engine, fusion.address) == ("ray", "10.0.0.5:6379")
    assert (fusion.to_json()["engine"], fusion.to_json()["address"]) == ("ray", "10.0.0.5:6379")
    for wrong, line in (
        ('engine = "ray"', "engine ray needs 'address': HOST:PORT of a cluster, or auto"),
        ('address = "auto"', "'address' is 'auto', which needs engine ray"),
        ('engine = "spark"', "'engine' is 'spark'"),
    ):
        with pytest.raises(ConfigError, match=line):
            loaded(tmp_path, wrong)
    del present[0]
    with pytest.raises(ConfigError, match=r"engine ray needs Ray; install it with: pip install 'edgestill\[ray\]'"):
        loaded(tmp_path, 'engine = "ray"\naddress = "auto"')
