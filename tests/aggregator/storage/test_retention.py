"""Which models a policy gives up: never the current, the pinned, the needed, the last, the best, the k-th."""

import pytest

from aggregator.config.tables import ModelsConfig
from aggregator.storage.retention import to_prune
from aggregator.storage.rows import ModelRow
from core.errors import ConfigError
from tests.aggregator.journals import digest

pytestmark = pytest.mark.light


def models(prototype: str = "mlp:fp32", first: int = 1, **accuracy: float) -> list[ModelRow]:
    """Ten models of rounds 0 to 9; the accuracy of some."""
    return [
        ModelRow(
            digest=digest(f"{prototype} {n}"),
            prototype=prototype,
            round=n,
            origin="fused",
            recipe="fedavg",
            parents=(),
            metrics={"accuracy": accuracy[f"r{n}"]} if f"r{n}" in accuracy else {},
            size=10,
            created=0.0,
            number=first + n,
        )
        for n in range(10)
    ]


def rounds(gone: list[ModelRow]) -> list[int]:
    return [model.round for model in gone]


def test_by_default_all_are_kept() -> None:
    assert to_prune(models(), (), ModelsConfig()) == []


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (ModelsConfig(last=3), [0, 1, 2, 3, 4, 5, 6]),
        (ModelsConfig(last=3, every=4), [1, 2, 3, 5, 6]),
        (ModelsConfig(last=10), []),
        (ModelsConfig(last=50), []),
    ],
)
def test_the_last_and_every_kth_stay(policy: ModelsConfig, expected: list[int]) -> None:
    assert rounds(to_prune(models(), (), policy)) == expected


def test_the_best_stay_and_of_equals_the_newer() -> None:
    scored = models(r1=0.9, r3=0.9, r5=0.2, r9=0.1)
    assert rounds(to_prune(scored, (), ModelsConfig(last=1, best=1))) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert rounds(to_prune(scored, (), ModelsConfig(last=1, best=2))) == [0, 2, 4, 5, 6, 7, 8]
    assert rounds(to_prune(scored, (), ModelsConfig(last=1, best=0))) == [*range(9)]


def test_what_is_pinned_or_needed_stays() -> None:
    kept = {digest("mlp:fp32 0"), digest("mlp:fp32 7")}
    assert rounds(to_prune(models(), kept, ModelsConfig(last=1))) == [1, 2, 3, 4, 5, 6, 8]


def test_each_prototype_has_its_own_last_and_best() -> None:
    both = [*models("mlp:fp32", r0=0.5), *models("cnn:w1", first=20, r4=0.1)]
    gone = to_prune(both, (), ModelsConfig(last=1))
    assert rounds([m for m in gone if m.prototype == "mlp:fp32"]) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rounds([m for m in gone if m.prototype == "cnn:w1"]) == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_policy_that_says_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="'every' is given without 'last'"):
        ModelsConfig(every=5)
