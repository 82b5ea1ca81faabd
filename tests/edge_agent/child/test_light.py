"""The light child's work: the same kind of update, without torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError, ModelError
from core.processes.process import environment
from edge_agent.child.light import run
from edge_agent.objectives.fedgen_weights import PAPER
from edge_agent.samples.choice import is_held_out
from edge_agent.samples.entries import digest_bytes
from edge_agent.state.store import GRAPH, learned_path
from models.build import build
from models.roles import EXTRACTOR_ROUND
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.export import export_onnx
from quant.onnx.session import open_session, run_graph
from quant.onnx.weights import read_weights
from quant.pack import load_packed, pack
from tests.edge_agent.devices import Device, alike, published, same
from tests.edge_agent.generators import sealed_generator
from tests.edge_agent.scripted import CLASSES, LATENT, SHAPE, make_artifact
from wire.ids import digest_of
from wire.messages import Hyper
from wire.tensors import decode
from wire.tensors.packed import Packed

HYPER = Hyper(batch_size=4, lr=0.05, epochs=10, momentum=0.9, seed=7, extra=PAPER.to_extra())


def quiet(event: str, **facts: object) -> None:
    """Progress is of no interest here."""


def light_device(folder: Path, prototype: str = "mlp:fp32") -> Device:
    """With the published model as a graph."""
    device = Device(folder, prototype)
    model = build(PrototypeSpec(*parse_prototype(prototype), SHAPE, CLASSES, LATENT))
    load_packed(model, published(device))
    export_onnx(model, torch.zeros(2, *SHAPE), folder / "model.onnx")
    return device


def options(device: Device) -> dict[str, object]:
    sealed = sealed_generator(CLASSES, LATENT)
    device.put(digest_of(sealed), sealed)
    generator = str(device.store.models.path(digest_of(sealed)))
    return {"graph": str(device.folder / "model.onnx"), "update": "predictor", "side_artifact": generator}


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1"])
def test_a_light_device_sends_a_predictor_that_has_learned(tmp_path: Path, prototype: str) -> None:
    device = light_device(tmp_path, prototype)
    job = device.job(1, update="predictor", hyper=HYPER)
    facts = run(device.request(job, **options(device), validation=0.25), quiet)
    header, body = device.update(job)
    tensors = decode(body)
    assert header.update == "predictor"
    with np.load(device.folder / "samples.npz") as samples:
        trained = sum(not is_held_out(digest_bytes(row.tobytes()), 0.25) for row in samples["x"])
    assert sum(header.label_counts) == header.num_examples == trained
    assert 12 < trained < 24
    assert set(tensors) == {"predictor.weight", "predictor.bias"}
    assert isinstance(tensors["predictor.weight"], Packed) == prototype.endswith("w1")
    assert facts["steps"] == HYPER.epochs * -(-trained // HYPER.batch_size)
    assert facts["accuracy"] >= 0.5  # of three classes


def test_the_boards_model_is_the_graph_with_the_new_predictor(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    job = device.job(1, update="predictor", hyper=HYPER)
    run(device.request(job, **options(device)), quiet)
    sent = decode(device.update(job)[1])
    device.settle(job)
    graph = (device.folder / "state" / "current.onnx").read_bytes()
    weights = read_weights(graph)
    assert same({name: weights[name] for name in sent}, sent)
    before = published(device)
    assert all(np.array_equal(weights[name], before[name]) for name in before if name.startswith("extractor."))
    assert run_graph(open_session(graph), np.zeros((2, *SHAPE), np.float32)).shape == (2, CLASSES)
    assert json.loads((device.folder / "state" / "current.json").read_text())["trained_here"] is True


def test_the_same_job_gives_the_same_body_again(tmp_path: Path) -> None:
    bodies = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        device = light_device(tmp_path / name)
        job = device.job(1, update="predictor", hyper=HYPER)
        run(device.request(job, **options(device)), quiet)
        bodies.append(device.update(job)[1])
    assert bodies[0] == bodies[1]


def test_an_offer_puts_its_predictor_into_the_graph(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    run(device.request(None, graph=str(device.folder / "model.onnx")), quiet)
    weights = read_weights((device.folder / "state" / "ready" / "offer-x" / "current.onnx").read_bytes())
    assert np.array_equal(weights["predictor.weight"], published(device)["predictor.weight"])


def test_personal_models_are_left_out_with_a_warning(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    said: list[str] = []

    def hear(event: str, **facts: object) -> None:
        said.extend([str(facts["text"])] if event == "warning" else [])

    bodies = []
    for number, extra in ((1, {}), (2, {"personal": 1.0})):
        hyper = Hyper(batch_size=4, lr=1e-30, steps=1, extra={**PAPER.to_extra(), **extra})
        job = device.job(number, update="predictor", hyper=hyper)
        run(device.request(job, **options(device)), hear)
        bodies.append(device.update(job)[1])
    assert said == ["personal models need edgestill[train]; this board runs the predictor that it shares"]
    assert bodies[0] == bodies[1]  # it takes part all the same


def test_a_job_that_shares_no_model_is_refused(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    asked = {**options(device), "update": "none"}
    with pytest.raises(ConfigError, match="shares no model"):
        run(device.request(device.job(1, update="none", hyper=HYPER), **asked), quiet)


def test_a_worse_model_is_refused_but_its_update_is_sent(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    judged = {**options(device), "validation": 0.25, "refuse_worse": True}
    good = device.job(1, update="predictor", hyper=HYPER)
    run(device.request(good, **judged), quiet)
    device.settle(good)
    bad = device.job(2, update="predictor", hyper=Hyper(batch_size=4, lr=1e-30, steps=1))
    facts = run(device.request(bad, **judged), quiet)
    assert facts["refused"] == 1.0
    assert len(device.store.outbox()) == 1


def test_a_graph_that_is_missing_or_of_another_latent_is_told(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    job = device.job(1, update="predictor")
    with pytest.raises(ConfigError, match=r"\[model\] graph: .*nowhere.onnx: No such file"):
        run(device.request(job, graph=str(tmp_path / "nowhere.onnx")), quiet)
    other = build(PrototypeSpec(*parse_prototype("mlp"), SHAPE, CLASSES, LATENT + 1))
    export_onnx(other, torch.zeros(2, *SHAPE), tmp_path / "other.onnx")
    with pytest.raises(ModelError, match="the fleet's latent is 8"):
        run(device.request(job, graph=str(tmp_path / "other.onnx")), quiet)


def test_a_real_light_child_trains_without_torch(tmp_path: Path) -> None:
    device = light_device(tmp_path, "mlp:w1")
    next_round(device)
    job = device.job(1, update="predictor", hyper=HYPER)
    request = device.request(job, **options(device))
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['brevitas'] = None; "  # importing them fails
        "from edge_agent.child.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=request.encode(), capture_output=True, env=environment(), check=False
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (told[-1:], done.stderr[-500:])
    assert told[-1]["event"] == "done"
    assert told[-1]["memory_mb"] < 100
    assert device.update(job)[0].update == "predictor"
    device.settle(job)
    assert alike(boards_extractor(device), extractor_of(device))


# ---- the fleet's extractor


def next_round(device: Device, *, extractor_round: int = 1, seed: int = 5) -> None:
    """The fleet publishes another model; 0: nobody has trained its extractor."""
    metrics = {EXTRACTOR_ROUND: float(extractor_round)} if extractor_round else {}
    device.digest, device.sealed = make_artifact(device.prototype, seed, number=1, metrics=metrics)
    device.put(device.digest, device.sealed)


def trains(device: Device, number: int = 1, **other: object) -> tuple[dict[str, float], list[str]]:
    """One round, with its update answered: metrics and warnings."""
    said: list[str] = []

    def hear(event: str, **facts: object) -> None:
        said.extend([str(facts["text"])] if event == "warning" else [])

    job = device.job(number, update="predictor", hyper=Hyper(batch_size=4, lr=0.05, epochs=2, seed=7))
    metrics = run(device.request(job, graph=str(device.folder / "model.onnx"), update="predictor", **other), hear)
    device.settle(job)
    return metrics, said


def takes_offer(device: Device, **other: object) -> list[str]:
    """An offer of the published model, installed: warnings."""
    said: list[str] = []

    def hear(event: str, **facts: object) -> None:
        said.extend([str(facts["text"])] if event == "warning" else [])

    run(device.request(None, graph=str(device.folder / "model.onnx"), **other), hear)
    device.store.take_offer("offer-x", device.digest)
    return said


def boards_extractor(device: Device) -> dict[str, object]:
    weights = read_weights((device.folder / "state" / "current.onnx").read_bytes())
    return {name: value for name, value in weights.items() if name.startswith("extractor.")}


def extractor_of(device: Device) -> dict[str, object]:
    """That of the published model, as torch packs it."""
    model = build(PrototypeSpec(*parse_prototype(device.prototype), SHAPE, CLASSES, LATENT))
    load_packed(model, published(device))
    return {name: value for name, value in pack(model, floats="fp32").items() if name.startswith("extractor.")}


@pytest.mark.parametrize("prototype", ["mlp:fp32", "mlp:w1", "mlp:w8a8"])
@pytest.mark.parametrize("by_job", [True, False])
def test_jobs_and_offers_bring_the_fleets_extractor(tmp_path: Path, prototype: str, by_job: bool) -> None:
    device = light_device(tmp_path, prototype)
    kits = extractor_of(device)
    next_round(device)
    if by_job:
        metrics, said = trains(device)
        assert (said, "other_extractor" in metrics) == ([], False)
    else:
        assert takes_offer(device) == []
    fleets = extractor_of(device)
    assert alike(boards_extractor(device), fleets)
    assert not alike(kits, fleets)
    kept = read_weights(learned_path(tmp_path / "state", prototype, GRAPH).read_bytes())
    assert alike({name: kept[name] for name in fleets}, fleets)


def test_the_predictor_is_trained_under_the_fleets_extractor(tmp_path: Path) -> None:
    """Its logits are those of the board's file."""
    device = light_device(tmp_path)
    next_round(device)
    metrics, _ = trains(device, validation=0.25)
    again = device.job(2, update="predictor", hyper=Hyper(batch_size=4, lr=1e-30, steps=1, seed=7))
    asked = {"graph": str(device.folder / "model.onnx"), "update": "predictor", "validation": 0.25}
    assert run(device.request(again, **asked), quiet)["accuracy_before"] == metrics["accuracy"]


def test_an_extractor_that_the_fleet_never_trained_replaces_none(tmp_path: Path) -> None:
    """Of a fleet whose devices share predictors only, or of round 0: the kit's may be trained elsewhere."""
    device = light_device(tmp_path)
    kits = extractor_of(device)
    next_round(device, extractor_round=0)
    metrics, said = trains(device)
    assert alike(boards_extractor(device), kits)
    assert (said, "other_extractor" in metrics) == ([], False)
    takes_offer(device)
    assert alike(boards_extractor(device), kits)
    assert not learned_path(tmp_path / "state", device.prototype, GRAPH).exists()


def test_never_keeps_the_kits_extractor_and_says_so_in_the_update(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    kits = extractor_of(device)
    next_round(device)
    metrics, said = trains(device, refresh="never")
    assert alike(boards_extractor(device), kits)
    assert (said, metrics["other_extractor"]) == ([], 1.0)


def test_with_offers_a_job_uses_the_extractor_of_the_last_offer(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    kits = extractor_of(device)
    next_round(device)
    trains(device, refresh="offers")
    assert alike(boards_extractor(device), kits)
    takes_offer(device, refresh="offers")
    offered = extractor_of(device)
    next_round(device, seed=6)
    metrics, _ = trains(device, 2, refresh="offers")
    assert same(boards_extractor(device), offered)
    assert metrics["other_extractor"] == 1.0


def test_a_graph_that_does_not_fit_is_told_and_the_kits_extractor_stays(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    other = build(PrototypeSpec(*parse_prototype("fedrad_mlp"), SHAPE, CLASSES, LATENT))
    export_onnx(other, torch.zeros(2, *SHAPE), tmp_path / "model.onnx")
    next_round(device)
    metrics, (said,) = trains(device)
    assert said.startswith("the fleet's extractor is not used: weight 'extractor.adapter.weight' is (8, 200), the ONNX")
    assert said.endswith("this board keeps the extractor that it has")
    assert metrics["other_extractor"] == 1.0
    assert boards_extractor(device)["extractor.body.fc1.weight"].shape == (512, 16)


def test_numbers_that_are_not_finite_are_told_too_and_the_last_good_extractor_stays(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    next_round(device)
    trains(device)
    good = boards_extractor(device)
    spoiled = {name: np.full_like(t, 3e38) if name.endswith("weight") else t for name, t in published(device).items()}
    device.digest, device.sealed = make_artifact(number=2, metrics={EXTRACTOR_ROUND: 2.0}, tensors=spoiled)
    device.put(device.digest, device.sealed)
    (said,) = takes_offer(device)
    assert "the graph gives NaN or infinity for the board's samples" in said
    assert same(boards_extractor(device), good)


def test_a_damaged_graph_is_set_aside_and_the_kits_is_used(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    kits = extractor_of(device)
    kept = learned_path(tmp_path / "state", device.prototype, GRAPH)
    kept.write_bytes(b"no graph")
    next_round(device)
    _, (said,) = trains(device, refresh="offers")
    assert "mlp-fp32.graph is not used: 8 bytes are not an ONNX file" in said
    assert alike(boards_extractor(device), kits)
    assert not kept.exists()
    assert (tmp_path / "state" / "damaged" / kept.name).exists()


def test_a_light_device_without_samples_takes_an_offered_model(tmp_path: Path) -> None:
    device = light_device(tmp_path)
    (device.folder / "samples.npz").unlink()
    run(device.request(None, graph=str(device.folder / "model.onnx"), update="predictor"), quiet)
    assert (device.folder / "state" / "ready" / "offer-x" / "current.onnx").exists()
