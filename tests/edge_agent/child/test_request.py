"""What the child is told."""

from pathlib import Path

import pytest

from edge_agent.child.request import Request, make_request
from edge_agent.config import AgentConfig, DataConfig, TrainConfig, UpdateConfig
from edge_agent.protocol.events import StartTraining
from transport.config import BrokerConfig
from wire.messages import Hyper, Job, Offer

pytestmark = pytest.mark.light

HYPER = Hyper(batch_size=4, lr=0.1, steps=3, extra={"prox": 0.5})
JOB = Job(round=2, deadline=1.0, prototype="cnn:w1", update="delta", bits=4, hyper=HYPER, model="a" * 64)


def request(instruction: Job | Offer = JOB, left: float | None = None, **update: object) -> Request:
    config = AgentConfig(
        fleet="f",
        device="pi-1",
        state_dir=Path("state"),
        broker=BrokerConfig(),
        private_key=Path("key.pem"),
        aggregator="ab" * 32,
        prototype="cnn:w1",
        data=DataConfig(path=Path("samples.npz")),
        update=UpdateConfig(**update),
    )
    action = StartTraining("k", instruction, 1, left)
    return make_request(config, action, model=Path("m"), aggregator="ab" * 32, now=1000.0, side_artifact=None)


def test_it_survives_the_way_to_the_child() -> None:
    assert Request.decode(request().encode()) == request()
    assert request().hyper == HYPER
    assert Path(request().data).is_absolute()


def test_the_kind_of_update_is_the_jobs_unless_the_board_has_its_own() -> None:
    assert (request().update, request().bits) == ("delta", 4)
    own = request(kind="predictor")
    assert (own.update, own.bits) == ("predictor", None)
    own = request(kind="delta", delta_bits=1)
    assert (own.update, own.bits) == ("delta", 1)


def test_a_tenth_of_the_time_is_kept_for_sending_at_most_30_s() -> None:
    assert request(left=100.0).stop_at == 1090.0
    assert request(left=1000.0).stop_at == 1970.0
    assert request(left=None).stop_at is None


def test_an_offer_has_nothing_to_train() -> None:
    offered = request(Offer(round=3, prototype="cnn:w1", model="b" * 64))
    assert (offered.round, offered.hyper, offered.base) == (None, None, "b" * 64)


def test_a_light_device_sends_its_predictor_whatever_the_job_asks() -> None:
    config = AgentConfig(
        fleet="f",
        device="pi-1",
        state_dir=Path("state"),
        broker=BrokerConfig(),
        private_key=Path("key.pem"),
        aggregator="ab" * 32,
        prototype="cnn:w1",
        data=DataConfig(path=Path("samples.npz"), count_epsilon=0.5, count_bins=4),
        graph=Path("cnn.onnx"),
        train=TrainConfig(mode="light"),
    )
    action = StartTraining("k", JOB, 1, None)
    made = make_request(config, action, model=Path("m"), aggregator="ab" * 32, now=0.0, side_artifact=Path("g"))
    assert (made.update, made.bits) == ("predictor", None)
    assert made.graph == str(Path("cnn.onnx").resolve())
    assert made.side_artifact == str(Path("g").resolve())
    assert (made.count_epsilon, made.count_bins) == (0.5, 4)
    assert request().graph is None
    assert request().side_artifact is None
