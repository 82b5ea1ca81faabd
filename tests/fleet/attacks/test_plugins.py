"""Attacks of users: found by entry point, checked, named in errors."""

import sys
from pathlib import Path

import pytest
import torch

from core.errors import ConfigError
from fleet.attacks import plugins as own_attacks
from fleet.attacks.builtin import Attack, check_over_mqtt, parse_attacks

CODE = """
import torch


def drift(trained, received, generator, strength):
    return {name: received[name] - strength * torch.ones_like(w) for name, w in trained.items()}


def shift(y, classes):
    return (y + 1) % classes


def wrong(y, classes):
    return y + classes


def few(trained, received, generator, strength):
    return {}


def flat(trained, received, generator, strength):
    return {name: w.flatten() for name, w in trained.items()}


def broken(y, classes):
    raise ValueError("on purpose")


nothing = None
"""
POINTS = {
    "tamper.drift": "drift",
    "labels.shift": "shift",
    "labels.wrong": "wrong",
    "tamper.few": "few",
    "tamper.flat": "flat",
    "labels.broken": "broken",
    "labels.nothing": "nothing",
    "labels.absent": "absent",
}
W = {"w": torch.tensor([[3.0, 1.0]])}
RECEIVED = {"w": torch.tensor([[1.0, 1.0]])}
Y = torch.tensor([0, 1, 2])


def install(folder: Path, points: dict[str, str], package: str = "harm") -> None:
    """Make the attacks those of an installed package."""
    (folder / f"{package}.py").write_text(CODE)
    facts = folder / f"{package}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = {package}:{function}" for name, function in points.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[edgestill.attacks]", *lines, ""]))


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("harm", None)
    for cached in (own_attacks._kind_of_installed, own_attacks._installed):
        cached.cache_clear()
    return tmp_path


def test_own_attacks_are_ordered_like_others() -> None:
    (first, second) = parse_attacks("drift=2:3,shift@1")
    assert (first.attack, first.count) == (Attack("drift", 2.0), 3)
    assert (second.attack, second.ids) == (Attack("shift"), (1,))
    assert parse_attacks("drift:1")[0].attack.strength == 1.0


def test_one_of_labels_trains_with_them_and_sends_what_came_of_it() -> None:
    attack = Attack("shift")
    assert not attack.tampers
    assert attack.labels(Y, 3).tolist() == [1, 2, 0]
    assert attack.tamper(W, RECEIVED, torch.Generator())["w"].tolist() == [[3.0, 1.0]]


def test_one_that_tampers_trains_honestly_and_sends_what_it_says() -> None:
    attack = Attack("drift", 2.0)
    assert attack.tampers
    assert attack.labels(Y, 3).tolist() == [0, 1, 2]
    assert attack.tamper(W, RECEIVED, torch.Generator())["w"].tolist() == [[-1.0, -1.0]]


def test_over_mqtt_own_labels_can_be_had_and_own_models_cannot() -> None:
    check_over_mqtt(parse_attacks("shift:1"))
    with pytest.raises(ConfigError, match="drift requires --transport memory"):
        check_over_mqtt(parse_attacks("drift:1"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wrong", "attack wrong: labels from 3 to 5, classes: 3"),
        ("few", "attack few: gave nothing for 'w', expected shape .1, 2."),
        ("flat", r"attack flat: gave shape \(2,\) for 'w', expected shape \(1, 2\)"),
        ("broken", "entry point 'harm:broken' of harm: attack broken failed .ValueError: on purpose."),
        ("nothing", "attack nothing is not a function but a NoneType"),
        ("absent", "attack absent does not load .AttributeError"),
    ],
)
def test_what_an_attack_gives_is_checked(name: str, says: str) -> None:
    attack = Attack(name, 1.0)
    with pytest.raises(ConfigError, match=says) as caught:
        attack.tamper(W, RECEIVED, torch.Generator()) if attack.tampers else attack.labels(Y, 3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("drfit:1", "did you mean 'drift'"),
        ("shift=2:1", "shift has no strength"),
        ("drift=0:1", "not a positive number"),
    ],
)
def test_what_cannot_be_ordered_is_told(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_attacks(text)


def test_a_name_that_two_packages_have_is_refused(installed: Path) -> None:
    install(installed, {"labels.drift": "shift"}, "other")
    with pytest.raises(ConfigError, match=r"attack drift comes from .* uninstall one"):
        parse_attacks("drift:1")


def test_an_entry_point_without_a_kind_is_refused(installed: Path) -> None:
    install(installed, {"drift": "drift"}, "other")
    with pytest.raises(ConfigError, match=r"call it tamper\.NAME or labels\.NAME"):
        parse_attacks("drift:1")


def test_a_built_in_name_stays_what_it_is(installed: Path) -> None:
    install(installed, {"labels.malicious": "shift"}, "other")
    assert Attack("malicious").labels(Y, 3).tolist() == [0, 0, 0]
