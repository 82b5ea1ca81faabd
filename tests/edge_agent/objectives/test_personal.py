"""Personal models: the loss by hand, what teaches, where they begin, and that updates do not notice."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from edge_agent.child.full import run
from edge_agent.objectives.personal import (
    Personal,
    PersonalObjective,
    load_personal,
    mixed,
    teacher_logits,
    train_personal,
)
from edge_agent.training.params import LocalTraining
from models.build import build
from models.samples import load_samples
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype
from quant.onnx.session import open_session, run_graph
from quant.pack import load_packed, pack_state
from tests.edge_agent.devices import Device, same
from tests.edge_agent.scripted import CLASSES, LATENT, SHAPE
from wire.messages import Hyper
from wire.tensors import decode

HOW = LocalTraining(lr=0.05, batch_size=4, epochs=3, momentum=0.9)


def quiet(event: str, **facts: object) -> None:
    """Progress is of no interest here."""


def fresh(prototype: str = "mlp:fp32", seed: int = 0, latent: int = 6) -> Prototype:
    spec = PrototypeSpec(*parse_prototype(prototype), (1, 8, 8), 3, latent)
    return build(spec, generator=torch.Generator().manual_seed(seed))


def samples(n: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(20)
    y = rng.integers(3, size=n)
    x = rng.normal(0, 0.3, (n, 1, 8, 8)).astype(np.float32)
    x[np.arange(n), 0, 2 * y] += 1.0
    return torch.from_numpy(x), torch.from_numpy(y)


def trained(
    model: Prototype, kept: object, weight: float = 0.0, how: LocalTraining = HOW, keep: float = 1.0
) -> tuple[dict, dict]:
    x, y = samples()
    other = fresh(str(model.spec), 9).state_dict()
    start = pack_state(fresh(str(model.spec), 1).state_dict(), floats="fp32")
    return train_personal(
        model,
        kept,  # type: ignore[arg-type]
        start,
        other,
        x,
        y,
        how,
        asked=Personal(weight, keep),
        floats="fp32",
        generator=torch.Generator().manual_seed(3),
    )


def test_the_loss_is_cross_entropy_and_divergence_from_the_teacher() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]])  # (1/4, 3/4)
    teacher = torch.tensor([[9.0, 9.0], [0.0, 0.0]])  # of sample 1: (1/2, 1/2)
    objective = PersonalObjective(torch.tensor([1, 0]), teacher, 2.0)
    loss = objective(lambda x: logits, torch.zeros(1, 1), torch.tensor([1]))  # type: ignore[arg-type]
    divergence = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert loss.item() == pytest.approx(-math.log(0.25) + 2.0 * divergence)


def test_the_teacher_answers_at_full_precision_in_eval_mode() -> None:
    model = fresh("cnn:w1")
    start = pack_state(fresh("cnn:w1", 1).state_dict(), floats="fp32")
    x, _ = samples(300)
    told = teacher_logits(model, start, x)
    assert told.shape == (300, 3)
    load_packed(model, start)
    with torch.no_grad():
        quantized = model.eval()(x)
    assert not torch.allclose(told, quantized)


@pytest.mark.parametrize("prototype", ["mlp:fp32", "cnn:w1"])
def test_the_first_one_is_the_update_and_the_next_goes_on_from_it(prototype: str) -> None:
    model = fresh(prototype)
    _, first = trained(model, None)
    update = pack_state(fresh(prototype, 9).state_dict(), floats="fp32")
    assert all(np.array_equal(first[name], value) for name, value in update.items())
    _, second = trained(model, first)
    assert not all(np.array_equal(first[name], second[name]) for name in first)
    x, y = samples()

    def loss(state: dict) -> float:
        load_packed(model, state)
        with torch.no_grad():
            return F.cross_entropy(model.eval()(x), y).item()

    assert loss(second) < loss(first)


def test_training_starts_between_the_own_model_and_the_published_one() -> None:
    _, first = trained(fresh(), None)
    start = pack_state(fresh("mlp:fp32", 1).state_dict(), floats="fp32")
    between = mixed(first, start, 0.75)
    for name, w in between.items():
        np.testing.assert_allclose(w, 0.75 * first[name] + 0.25 * start[name], rtol=1e-6)  # type: ignore[operator]
    still = LocalTraining(lr=1e-30, batch_size=24, steps=1)
    _, second = trained(fresh(), first, how=still, keep=0.75)
    assert all(np.array_equal(second[name], between[name]) for name in between)
    assert mixed({"n": np.array([3])}, {"n": np.array([5])}, 0.5)["n"] == np.array([3])  # no float


def test_what_a_job_says_of_personal_models() -> None:
    assert Personal.from_extra({"prox": 0.1}) is None
    assert Personal.from_extra({"personal": 0.25, "personal_keep": 0.75}) == Personal(0.25, 0.75)
    assert Personal.from_extra({"personal": 0.0}) == Personal(0.0, 0.5)


def test_what_was_kept_of_another_shape_is_not_gone_on_from() -> None:
    other = pack_state(fresh(latent=4).state_dict(), floats="fp32")
    assert not load_personal(fresh(), other)
    assert not load_personal(fresh(), None)
    _, begun = trained(fresh(), other)
    assert all(np.array_equal(begun[n], w) for n, w in pack_state(fresh("mlp:fp32", 9).state_dict()).items())


def test_one_that_diverges_begins_anew_from_the_update() -> None:
    _, first = trained(fresh(), None)
    wild = LocalTraining(lr=1000.0, batch_size=4, epochs=50, momentum=0.9)
    _, second = trained(fresh(), first, how=wild)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_heavy_teacher_holds_the_model_near_its_answers() -> None:
    model, start = fresh(), pack_state(fresh("mlp:fp32", 1).state_dict(), floats="fp32")
    _, first = trained(model, None)
    x, _ = samples()
    teacher = teacher_logits(model, start, x).softmax(1)

    def distance(weight: float) -> float:
        _, made = trained(model, first, weight, LocalTraining(lr=0.02, batch_size=8, epochs=30))
        load_packed(model, made)
        with torch.no_grad():
            return float((model.eval()(x).softmax(1) - teacher).abs().sum())

    assert distance(20.0) < 0.5 * distance(0.0)


@pytest.mark.parametrize("update", ["state", "delta"])
def test_a_board_runs_its_personal_model_and_sends_the_update_of_any_other(tmp_path: Path, update: str) -> None:
    bits = {"bits": 8} if update == "delta" else {}
    sent: dict[bool, list[bytes]] = {}
    for personal in (False, True):
        (tmp_path / str(personal)).mkdir()
        device = Device(tmp_path / str(personal))
        hyper = Hyper(
            batch_size=4, lr=0.05, epochs=2, extra={"personal": 0.5, "personal_keep": 0.5} if personal else {}
        )
        sent[personal] = []
        for number in (1, 2):
            job = device.job(number, update=update, hyper=hyper, **bits)
            run(device.request(job), quiet)
            sent[personal].append(device.update(job)[1])
            device.settle(job)
    assert sent[True] == sent[False]
    state = device.folder / "state"
    kept = decode((state / "learned" / "mlp-fp32.personal").read_bytes())
    x = load_samples(device.folder / "samples.npz").x
    model = build(PrototypeSpec(*parse_prototype("mlp"), SHAPE, CLASSES, LATENT))
    load_packed(model, kept)
    with torch.no_grad():
        mine = model.eval()(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(run_graph(open_session((state / "current.onnx").read_bytes()), x), mine, atol=1e-5)
    if update == "state":
        assert any(not np.array_equal(kept[n], w) for n, w in decode(sent[True][1]).items())
    run(device.request(None), quiet)  # an offer: the fused model is a teacher, and the board keeps its own
    offered = (state / "ready" / "offer-x" / "current.onnx").read_bytes()
    np.testing.assert_allclose(run_graph(open_session(offered), x), mine, atol=1e-5)


def test_after_a_job_without_personal_models_the_board_has_none(tmp_path: Path) -> None:
    device = Device(tmp_path)
    kept = tmp_path / "state" / "learned" / "mlp-fp32.personal"
    for number, extra in ((1, {"personal": 0.5, "personal_keep": 0.5}), (2, {})):
        job = device.job(number, hyper=Hyper(batch_size=4, lr=0.05, epochs=1, extra=extra))
        run(device.request(job), quiet)
        device.settle(job)
        assert kept.exists() == bool(extra)


def test_a_damaged_personal_model_is_set_aside_and_begun_anew(tmp_path: Path) -> None:
    device = Device(tmp_path)
    path = tmp_path / "state" / "learned" / "mlp-fp32.personal"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"garbage")
    said: list[str] = []
    job = device.job(1, hyper=Hyper(batch_size=4, lr=0.05, epochs=1, extra={"personal": 0.5, "personal_keep": 0.5}))
    run(device.request(job), lambda event, **facts: said.append(str(facts.get("text", ""))))
    assert any("starting over" in text for text in said)
    update = decode(device.update(job)[1])
    device.settle(job)
    assert same(decode(path.read_bytes()), update)
