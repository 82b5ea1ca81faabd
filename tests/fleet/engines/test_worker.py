"""What a worker does with each frame, without a process around it."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import DeviceError
from fleet.engines.channel import Frame
from fleet.engines.work import Bench
from fleet.engines.worker import FAULTS, fault_text, obey
from fleet.simulation.round_message import Artifact
from tests.fleet.engines.benches import NAME, bench, published

Sent = tuple[str, dict[str, Any], list[bytes]]


@pytest.fixture(scope="module")
def made() -> Bench:
    return bench()


class Told:
    """A worker's side of the conversation."""

    def __init__(self, of: Bench) -> None:
        self.bench = of
        self.held: dict[str, Artifact] = {}
        self.sent: list[Sent] = []

    def tell(self, kind: str, facts: dict[str, Any], blobs: tuple[bytes, ...] = ()) -> list[Sent]:
        """What it answers."""
        self.sent.clear()
        obey(Frame(kind, facts, blobs), self.bench, self.held, lambda *frame: self.sent.append(frame))
        return list(self.sent)

    def open(self, update: str = "state") -> None:
        state = published(self.bench)
        self.tell("hold", {"keep": [state.digest], "new": [state.digest]}, (state.data,))
        facts = {"round_number": 1, "published": {NAME: state.digest}, "update": update, "extra": {}}
        self.tell("round", {**facts, "side_artifact": None})


def test_artifacts_are_held_by_digest_until_they_are_not_wanted(made: Bench) -> None:
    told = Told(made)
    assert told.tell("hold", {"keep": ["a", "b"], "new": ["a", "b"]}, (b"1", b"2")) == []
    told.tell("hold", {"keep": ["b", "c"], "new": ["c"]}, (b"3",))
    assert {digest: artifact.data for digest, artifact in told.held.items()} == {"b": b"2", "c": b"3"}
    assert told.held["b"].digest == "b"  # it is not hashed again


def test_a_round_is_trained_to_the_bits_of_the_bench_itself(made: Bench) -> None:
    told = Told(made)
    told.open()
    ((kind, facts, blobs),) = told.tell("train", {"devices": [1], "kept": [[]]})
    (answer,) = made.train([(1, {})])
    assert (kind, facts["kept"], facts["reason"], blobs) == ("answer", [], "", [answer.message])


def test_what_devices_have_kept_comes_in_one_row_of_blobs(made: Bench) -> None:
    told = Told(made)
    told.open("predictor")
    ((_, facts, (first, extractor)),) = told.tell("train", {"devices": [0], "kept": [[]]})
    assert facts["kept"] == ["extractor"]
    ((_, _, (second, _)),) = told.tell("train", {"devices": [0], "kept": [["extractor"]]}, (extractor,))
    assert first != second


def test_shares_of_the_test_set_are_tallied(made: Bench) -> None:
    told = Told(made)
    told.open()
    (state,) = told.held
    facts = {"prototype": NAME, "state": state, "first": 0, "last": made.batches, "quantized": False}
    assert told.tell("score", facts) == [
        ("tally", {"tally": made.score(NAME, told.held[state], 0, made.batches, quantized=False)}, [])
    ]


def double(request: dict[str, Any]) -> dict[str, Any]:
    return {"twice": 2 * request["n"]}


def test_a_call_is_answered(made: Bench) -> None:
    answered = Told(made).tell("call", {"call": f"{__name__}:double", "request": {"n": 4}})
    assert answered == [("called", {"answer": {"twice": 8}}, [])]


def test_errors_are_told_in_one_line_and_memory_that_is_out_is_none_of_them() -> None:
    assert fault_text(DeviceError("sim-3 has no samples")) == "sim-3 has no samples"
    assert fault_text(KeyError("w")) == "internal error: KeyError: 'w'"
    assert not issubclass(MemoryError, FAULTS)
