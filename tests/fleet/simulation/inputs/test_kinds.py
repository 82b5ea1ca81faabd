"""Prototypes and samples that do not fit together are told with what to give instead."""

from __future__ import annotations

import pytest

from core.errors import ConfigError
from fleet.simulation.inputs.kinds import ANY_SHAPE, TEXT, check_kinds
from models.zoo import ZOO

pytestmark = pytest.mark.light


def test_what_fits_passes_and_users_own_architectures_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    check_kinds(["cnn:fp32", "mlp:w1"], "image", "digits")
    check_kinds(["text:fp32"], "text", "ag_news")
    check_kinds(["mlp:fp32", "fedrad_mlp:fp32"], "features", "mine.npz")
    monkeypatch.setattr("fleet.simulation.inputs.kinds.ZOO", {})
    check_kinds(["cnn:fp32"], "text", "ag_news")


@pytest.mark.parametrize(
    ("prototype", "kind", "says"),
    [
        ("cnn:w1", "text", "takes images, but x is text; give others, such as --prototypes text:fp32,text:w1"),
        ("mlp:fp32", "text", "takes images or rows of numbers, but x is text; give others, such as --prototypes text:"),
        ("text:fp32", "image", "takes text, but x is images; give others, such as --prototypes cnn:fp32,mlp:fp32"),
        ("cnn:fp32", "features", "takes images, but x is rows of numbers; give others, such as --prototypes mlp:fp32"),
    ],
)
def test_what_does_not_is_told_with_what_would(prototype: str, kind: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"--prototypes {prototype}: {says}") as caught:
        check_kinds(["text:w1" if kind == "text" else "mlp:fp32", prototype], kind, "x")  # type: ignore[arg-type]
    assert caught.value.settings == ("prototypes", "dataset")


def test_the_architectures_named_here_are_of_the_zoo() -> None:
    assert {*TEXT, *ANY_SHAPE} <= ZOO.keys()
