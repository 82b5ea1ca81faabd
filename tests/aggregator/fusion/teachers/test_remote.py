"""Teachers that answer elsewhere answer the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

from aggregator.fusion.process_pool import Pool, lent
from aggregator.fusion.teachers.ensemble import Ensemble
from aggregator.fusion.teachers.logits import OnnxTeacher, StateTeacher, Teacher, all_logits
from aggregator.fusion.teachers.remote import far_logits
from quant.onnx.export import export_onnx
from tests.aggregator.fusion.answers import Says
from tests.aggregator.fusion.teachers.test_logits import received


class FarPool:
    """Real processes, which share nothing with this one but files."""

    far = True

    def __init__(self, workers: int) -> None:
        self.pool, self.workers, self.asked = Pool(workers), workers, list[int]()

    def ask_all(self, call: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.asked.append(len(requests))
        return self.pool.ask_all(call, requests)


@pytest.fixture(scope="module")
def pool() -> Any:
    made = FarPool(2)
    yield made
    made.pool.close()


def teachers() -> tuple[list[Teacher], torch.Tensor]:
    made: list[Teacher] = []
    for name in ("cnn:w1", "fedrad_mlp", "cnn:w8a8"):
        model, state, x = received(name)
        made += [StateTeacher(device=f"{name} {n}", spec=model.spec, state=lambda state=state: state) for n in range(3)]
    model, _, x = received("cnn:fp32")
    return [*made, OnnxTeacher(device="graph", graph=export_onnx(model, x).data)], x


def test_logits_from_elsewhere_are_those_from_here(pool: FarPool) -> None:
    some, x = teachers()
    here, there = list(all_logits(some, x)), list(far_logits(pool, some, x))
    assert len(there) == 10
    assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))
    assert pool.asked == [2, 2]  # 8 teachers, then 2: memory does not hold all answers


def test_an_ensemble_asks_the_pool_that_was_lent(pool: FarPool) -> None:
    some, x = teachers()
    here = Ensemble(some, x, teach="median-logits", scored=True)
    before = len(pool.asked)
    with lent(pool):
        there = Ensemble(some, x, teach="median-logits", scored=True)
        assert torch.equal(there.taught(), here.taught())
        assert torch.equal(there.scores(), here.scores())
        assert len(pool.asked) > before
        alone = Ensemble([Says("d0", torch.ones(4, 3), classes=3)], torch.arange(4.0)[:, None], teach="mean-logits")
        asked = len(pool.asked)
        assert torch.equal(alone.taught(), torch.ones(4, 3))  # a teacher that cannot be sent stays here
    assert len(pool.asked) == asked
