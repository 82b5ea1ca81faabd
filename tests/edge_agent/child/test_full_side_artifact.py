"""Training with something to learn from beside the model; label counts that tell less; models of the device's own."""

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError
from core.seeds import derive_seed
from edge_agent.child.full import local_training, run
from edge_agent.objectives.fedgen_weights import PAPER, REFERENCE
from edge_agent.objectives.select import make_objective
from edge_agent.objectives.side_artifact import SideArtifact
from edge_agent.training.label_privacy import told_counts
from edge_agent.training.local_round import local_update
from models.build import build
from models.samples import load_samples
from models.spec import PrototypeSpec, parse_prototype
from quant.onnx.weights import read_weights
from tests.edge_agent.devices import Device, published, same
from tests.edge_agent.generators import sealed_generator, sealed_label_logits, small_latents
from tests.edge_agent.scripted import CLASSES, DEVICE, LATENT, SHAPE
from wire.ids import digest_of
from wire.keys import load_private_key
from wire.messages import Hyper
from wire.tensors import decode, encode


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def quiet(event: str, **facts: object) -> None:
    """Progress is of no interest here."""


def give(device: Device, sealed: bytes) -> dict[str, str]:
    device.put(digest_of(sealed), sealed)
    return {"side_artifact": str(device.store.models.path(digest_of(sealed)))}


@pytest.mark.parametrize("how", [PAPER, REFERENCE], ids=["paper", "reference"])
def test_a_guided_job_gives_what_its_simulated_twin_gives(device: Device, how: object) -> None:
    hyper = Hyper(batch_size=4, lr=0.002, steps=6, seed=7, extra=how.to_extra())  # type: ignore[attr-defined]
    job = device.job(3, hyper=hyper)
    run(device.request(job, **give(device, sealed_generator(CLASSES, LATENT))), quiet)
    ours = decode(device.update(job)[1])
    samples = load_samples(device.folder / "samples.npz")
    theirs, _ = local_update(
        build(PrototypeSpec(*parse_prototype("mlp"), SHAPE, CLASSES, LATENT)),
        encode(published(device)),
        torch.from_numpy(samples.x),
        torch.from_numpy(samples.y),
        local_training(hyper),
        floats="fp32",
        generator=torch.Generator().manual_seed(derive_seed(7, "train", 3, DEVICE)),
        objective=make_objective(
            SideArtifact(latents=small_latents(CLASSES, LATENT)), hyper.extra, seed=7, number=3, device=DEVICE
        ),
    )
    assert same(ours, theirs)
    plain = device.job(3, hyper=Hyper(batch_size=4, lr=0.002, steps=6, seed=7))
    run(device.request(plain), quiet)
    assert not same(ours, decode(device.update(plain)[1]))


def test_logits_by_label_go_up_with_the_model_and_are_counted_on(device: Device) -> None:
    hyper = Hyper(batch_size=24, lr=1e-30, steps=1, extra={"label_logits": 1.0})
    sent = []
    for number in (1, 2):
        job = device.job(number, hyper=hyper)
        run(device.request(job, **give(device, sealed_label_logits(CLASSES, LATENT, np.eye(CLASSES)))), quiet)
        sent.append(decode(device.update(job)[1]))
        device.settle(job)
    one, two = (tensors.pop("label-logits") for tensors in sent)
    assert set(sent[0]) == set(published(device))
    np.testing.assert_allclose(two, one * (9 / 8) * (16 / 17), rtol=1e-5)  # 8 samples a label; 1 is added to the count


def test_without_model_sharing_logits_alone_go_up_and_the_model_stays(device: Device) -> None:
    first = device.job(1, update="logits", hyper=Hyper(batch_size=4, lr=0.1, epochs=2, extra={"label_logits": 1.0}))
    run(device.request(first), quiet)
    header, body = device.update(first)
    assert header.update == "logits"
    assert set(decode(body)) == {"label-logits"}
    device.settle(first)
    own = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    assert own.keys() == published(device).keys()
    still = Hyper(batch_size=4, lr=1e-30, steps=1, extra={"label_logits": 1.0})
    run(device.request(device.job(2, update="logits", hyper=still)), quiet)
    device.settle(device.job(2, update="logits", hyper=still))
    again = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    assert same(own, again)


def test_a_device_that_shares_nothing_keeps_its_model_and_the_board_has_it(device: Device) -> None:
    first = device.job(1, update="none", hyper=Hyper(batch_size=4, lr=0.1, epochs=2))
    run(device.request(first), quiet)
    header, body = device.update(first)
    assert (header.update, decode(body)) == ("none", {})
    device.settle(first)
    own = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    assert own.keys() == published(device).keys()
    assert not same(own, published(device))
    run(device.request(None), quiet)  # what is offered is a model that nobody has trained
    current = read_weights((device.folder / "state" / "ready" / "offer-x" / "current.onnx").read_bytes())
    assert same(current, own)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"update": "logits"}, "the job requests none"),
        ({"update": "onnx", "hyper": Hyper(batch_size=4, lr=0.1, steps=1, extra={"label_logits": 1.0})}, "onnx update"),
    ],
)
def test_logits_that_cannot_go_up_are_refused(device: Device, job: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        run(device.request(device.job(1, **job)), quiet)


def test_an_offer_takes_the_predictor_and_leaves_the_devices_own_extractor(device: Device) -> None:
    job = device.job(1, update="predictor")
    run(device.request(job), quiet)
    device.settle(job)
    own = decode((device.folder / "state" / "learned" / "mlp-fp32.extractor").read_bytes())
    run(device.request(None), quiet)
    current = read_weights((device.folder / "state" / "ready" / "offer-x" / "current.onnx").read_bytes())
    assert same({n: t for n, t in current.items() if n.startswith("extractor.")}, own)
    assert np.array_equal(current["predictor.weight"], published(device)["predictor.weight"])


def test_after_a_job_that_shares_the_model_the_device_has_none_of_its_own(device: Device) -> None:
    kept = device.folder / "state" / "learned" / "mlp-fp32.extractor"
    for number, update in ((1, "predictor"), (2, "state")):
        job = device.job(number, update=update)
        run(device.request(job), quiet)
        device.settle(job)
        assert kept.exists() == (update == "predictor")


def test_label_counts_leave_with_noise_and_the_examples_with_them(device: Device) -> None:
    job = device.job()
    run(device.request(job, count_epsilon=0.5, count_bins=2), quiet)
    header, _ = device.update(job)
    secret = load_private_key(device.folder / "device.pem").private_bytes_raw()
    assert header.label_counts == told_counts((8, 8, 8), secret=secret, epsilon=0.5, width=2)
    assert header.num_examples == max(sum(header.label_counts), 1)


def test_an_update_of_the_fedgen_cnns_predictor_is_below_3_kb(device: Device) -> None:
    """Its tensors, in the envelope and behind the header of a real update."""
    spec = PrototypeSpec(*parse_prototype("cnn"), (1, 28, 28), 10, 32)
    tensors = encode({n: t.numpy() for n, t in build(spec).state_dict().items() if n.startswith("predictor.")})
    assert len(tensors) < 1700  # 330 float32 numbers and their names
    job = device.job(1, update="predictor")
    run(device.request(job), quiet)
    sealed = (device.folder / "state" / "outbox" / device.store.outbox()[0].key / "update").read_bytes()
    header = len(sealed) - len(device.update(job)[1])
    assert len(tensors) + header < 3000
