"""What is accepted can be fused: updates of every kind, precision and recipe, at the bounds of what intake lets pass.

Each drawn update goes the whole way: sealed, checked by `check_update`, kept as a blob, fused by the worker's `Fuser`.
Fusing never raises, and all that is published is finite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aggregator.fusion.types import Memory, Server
from aggregator.intake.checks import Asked, check_update
from aggregator.recipes.catalogue import RECIPES, Recipe
from aggregator.rounds.state import Verdict
from aggregator.storage.artifacts import open_artifact, published_tensors
from aggregator.storage.blobs import Blobs
from aggregator.storage.rows import UpdateRow
from aggregator.tensor_checks import LARGEST, LARGEST_VARIANCE
from aggregator.worker.fuse_round import Fuser, StoredGroup
from core.settings import replace
from quant.onnx.apart import MAX_BYTES
from quant.onnx.weights import patch_weights
from quant.precision import PRECISIONS
from tests.aggregator.scripted import FLEET, key_of, seal_update
from tests.fuzz import world
from wire.headers import encode_update
from wire.ids import AGGREGATOR
from wire.messages import MAX_COUNT, UpdateHeader
from wire.tensors import Packed, Tensor, decode, encode

KINDS = ("state", "delta", "predictor", "onnx", "logits", "none")
PROTOTYPES = (*(f"cnn:{precision}" for precision in PRECISIONS), "mlp:fp32", "mlp:w1")
FILLS = ("honest", "honest", "top", "bottom", "mixed", "zero", "tiny")
COUNTS = (1, 10, 2**31, 2**53)
LABELS = ((), (4, 3, 3), (0, 0, 0), (10, 0, 0), (2**53, 0, 1))


def quick(recipe: Recipe) -> Recipe:
    """The recipe with few steps of everything that is trained."""
    generation = None if recipe.generation is None else replace(recipe.generation, steps=3, batch_size=4)
    distill = replace(recipe.distill, steps=3, check_every=1, batch_size=8, swa=min(recipe.distill.swa, 2))
    return replace(recipe, distill=distill, generation=generation, refine=min(recipe.refine, 2), samples=2)


def fill(value: Tensor, how: str, name: str, rng: np.random.Generator) -> Tensor:
    """The tensor with other values, as far out as intake lets them be."""
    if how == "honest":
        return value
    if isinstance(value, Packed):
        return _fill_packed(value, how)
    most = LARGEST_VARIANCE if name.endswith("running_var") else LARGEST
    least = 0.0 if name.endswith("running_var") else -most
    numbers = {"top": most, "bottom": least, "zero": 0.0, "tiny": 1e-45}
    filled = np.full(value.shape, numbers.get(how, 0.0), np.float32)
    if how == "mixed":
        filled[...] = rng.choice([most, least, 0.0, 1.0], value.shape)
    return filled


def _fill_packed(value: Packed, how: str) -> Packed:
    top = max(1, 2 ** (value.bits - 1) - 1)
    share = 1 if value.mean is None else 2  # level and mean may both be at the end
    scale = {"top": 1.0, "bottom": -1.0, "mixed": 1.0, "zero": 0.0, "tiny": 0.0}[how] * LARGEST / top / share
    mean = (
        None if value.mean is None else np.full(value.scale.shape, abs(scale * top) if how != "tiny" else 0, np.float32)
    )
    scales = np.full(value.scale.shape, 1e-45 if how == "tiny" else scale * (1 - 1e-6), np.float32)
    levels = value.levels
    if how != "mixed":
        levels = np.full(levels.shape, top, np.int8)
    return Packed(
        bits=value.bits, levels=levels, scale=scales, mean=None if mean is None else mean * np.float32(1 - 1e-6)
    )


def make_body(kind: str, prototype: str, fills: list[str], rng: np.random.Generator, logits: str | None) -> bytes:
    if kind == "onnx":
        honest = world.honest(prototype, "state")
        given_ = {n: fill(v, fills[i % len(fills)], n, rng) for i, (n, v) in enumerate(honest.items())}
        return patch_weights(world.graph(prototype), given_)
    tensors = {
        n: fill(v, fills[i % len(fills)], n, rng) for i, (n, v) in enumerate(world.honest(prototype, kind).items())
    }
    if logits is not None and kind in ("state", "predictor"):
        tensors["label-logits"] = fill(np.eye(world.CLASSES, dtype=np.float32), logits, "label-logits", rng)
    return encode(tensors)


def send(fuser: Fuser, device: str, prototype: str, kind: str, body: bytes, **facts: Any) -> UpdateRow:
    """Seal it, have it checked, keep it."""
    header = UpdateHeader(
        round=1,
        device=device,
        prototype=prototype,
        update=kind,
        base=world.digest(prototype),
        metrics={"train_loss": 1e308},
        **facts,
    )
    sealed = seal_update(device, encode_update(header, body), 1)
    asked = Asked(
        prototype=prototype,
        model=world.digest(prototype),
        classes=world.CLASSES,
        published=published_tensors(world.artifact(prototype)),
    )
    checked = check_update(
        sealed,
        device=device,
        key=key_of(device).public_key(),
        fleet=FLEET,
        judge=lambda number: Verdict(),
        asked=lambda number: asked,
        replayed=lambda nonce: False,
    )
    return UpdateRow(
        device=device,
        round=1,
        transfer=device,
        digest=fuser.blobs.put(sealed),
        size=len(sealed),
        prototype=prototype,
        kind=kind,
        num_examples=header.num_examples,
        nonce=checked.nonce,
        received=0.0,
        metrics=header.metrics,
    )


UPDATE = st.tuples(
    st.sampled_from(KINDS),
    st.lists(st.sampled_from(FILLS), min_size=1, max_size=4),
    st.sampled_from(COUNTS),
    st.sampled_from(LABELS),
    st.one_of(st.none(), st.sampled_from(FILLS)),
)
MATCHED = ("mlp:fp32", "mlp:w1", "mlp:w8a8")  # FedMA knows no BatchNorm


def rounds(recipe: Recipe) -> st.SearchStrategy[Any]:
    """Up to two prototypes, and up to four updates of each."""
    prototypes = MATCHED if recipe.average == "matched" else PROTOTYPES
    return st.lists(
        st.tuples(st.sampled_from(prototypes), st.lists(UPDATE, min_size=1, max_size=4)), min_size=1, max_size=2
    )


def worst(recipe: Recipe) -> list[tuple[str, list[Any]]]:
    """All kinds, as far out as they may be."""
    prototypes = MATCHED[1:2] if recipe.average == "matched" else ("cnn:w4a4",)
    fills = (["mixed"], ["top", "bottom"], ["tiny", "zero", "top"])
    return [
        (
            prototype,
            [(kind, fills[(i + at) % 3], COUNTS[i % 4], LABELS[i % 5], "mixed") for i, kind in enumerate(KINDS)],
        )
        for at, prototype in enumerate(prototypes)
    ]


def fuser_of(folder: Path, *, source: bool) -> Fuser:
    x = torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(12) % world.CLASSES
    server = Server(source=x if source else None, validation=(x, y), test=(x, y))
    blobs = Blobs(folder / "blobs")
    for prototype in {*PROTOTYPES, *MATCHED}:
        blobs.put(world.artifact(prototype))
    return Fuser(blobs, key_of(AGGREGATOR), FLEET, (x, y), server)


def told(update: list[Any]) -> list[Any]:
    """The drawn update with label counts whose sum is a number of examples."""
    kind, fills, count, labels, logits = update
    most = MAX_COUNT // max(len(labels), 1)
    return [kind, fills, count, tuple(min(n, most) for n in labels), logits]


def fuse_drawn(recipe: Recipe, fuser: Fuser, drawn: list[tuple[str, list[Any]]], seed: int, rounds: int = 2) -> None:
    rng = np.random.default_rng(seed)
    groups = []
    for prototype, updates in dict(drawn).items():
        rows = [
            send(
                fuser,
                f"{prototype.replace(':', '-')}-{i}",
                prototype,
                kind,
                make_body(kind, prototype, fills, rng, logits),
                num_examples=max(sum(labels), 1) if labels else count,  # they must agree
                label_counts=labels,
            )
            for i, (kind, fills, count, labels, logits) in enumerate(map(told, updates))
        ]
        groups.append(StoredGroup(spec=world.spec_of(prototype), base=world.digest(prototype), rows=rows))
    memory = Memory()
    for number in range(1, rounds + 1):  # the second with what the first has left
        made, fused = fuser.fuse(quick(recipe), number, groups, memory)
        memory = fused.memory
        assert {header.prototype for _, header in made} >= {str(group.spec) for group in groups}
        for digest, _ in made:
            for name, tensor in decode(open_artifact(fuser.blobs.read(digest))[1]).items():
                assert np.isfinite(tensor).all(), name


@pytest.fixture(scope="module", params=[True, False], ids=["samples", "no-samples"])
def fuser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fuser:
    return fuser_of(tmp_path_factory.mktemp("fuser"), source=request.param)


def check_recipe(name: str, fuser: Fuser, examples: int) -> None:
    recipe = RECIPES[name]
    if recipe.needs_source and fuser.server.source is None:
        pytest.skip("the recipe needs samples")

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(drawn=rounds(recipe), seed=st.integers(0, 99))
    def run(drawn: list[tuple[str, list[Any]]], seed: int) -> None:
        fuse_drawn(recipe, fuser, drawn, seed)

    run()


@pytest.mark.parametrize("name", RECIPES)
def test_accepted_updates_at_the_bounds_can_be_fused_by_every_recipe(name: str, fuser: Fuser) -> None:
    recipe = RECIPES[name]
    if recipe.needs_source and fuser.server.source is None:
        pytest.skip("the recipe needs samples")
    fuse_drawn(recipe, fuser, worst(recipe), 0, rounds=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_many_accepted_rounds_can_be_fused_by_every_recipe(name: str, fuser: Fuser) -> None:
    check_recipe(name, fuser, 25)


@pytest.mark.parametrize("prototype", PROTOTYPES[: len(PRECISIONS)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_update_of_every_kind_and_precision_is_accepted(kind: str, prototype: str, tmp_path: Path) -> None:
    fuser = fuser_of(tmp_path, source=False)
    body = make_body(kind, prototype, ["honest"], np.random.default_rng(0), None)
    assert len(body) < MAX_BYTES
    row = send(fuser, "d0", prototype, kind, body, num_examples=10, label_counts=(4, 3, 3))
    group = StoredGroup(spec=world.spec_of(prototype), base=world.digest(prototype), rows=[row])
    made, _ = fuser.fuse(RECIPES["fedavg"], 1, [group], Memory())
    assert [header.prototype for _, header in made] == [prototype]
