"""Rows for tests: a round, updates and models as the journal wants them, with only what matters spelled out."""

from __future__ import annotations

from aggregator.storage.rows import Invitation, JobRow, ModelRow, RoundRow, UpdateRow
from wire.ids import digest_of
from wire.messages import Hyper

HYPER = Hyper(batch_size=4, lr=0.1, epochs=1, extra={"prox": 0.5})


def digest(text: str) -> str:
    return digest_of(text.encode())


def a_round(number: int = 1, phase: str = "open", **changes: object) -> RoundRow:
    facts: dict = {
        "deadline": 100.0,
        "update": "state",
        "bits": None,
        "hyper": HYPER,
        "recipe": "fedavg",
        "opened": 1.0,
    }
    return RoundRow(**{"number": number, "phase": phase, **facts, **changes})


def an_update(device: str = "a", number: int = 1, **changes: object) -> UpdateRow:
    name = f"{device} {number}"
    facts: dict = {
        "transfer": digest(name)[:32],
        "digest": digest(name),
        "size": 10,
        "prototype": "mlp:fp32",
        "kind": "state",
        "num_examples": 5,
        "nonce": digest(name)[:12].encode(),
        "received": 2.0,
        "metrics": {"train_loss": 0.5},
    }
    return UpdateRow(**{"device": device, "round": number, **facts, **changes})


def a_model(name: str = "m", prototype: str = "mlp:fp32", number: int = 0, **changes: object) -> ModelRow:
    facts: dict = {"origin": "start", "recipe": "start", "parents": (), "metrics": {}, "size": 100, "created": 3.0}
    return ModelRow(**{"digest": digest(name), "prototype": prototype, "round": number, **facts, **changes})


def a_job(number: int, device: str = "a", **changes: object) -> JobRow:
    facts = {"round": 1, "version": 0, "prototype": "mlp:fp32", "model": digest("old"), "side_artifact": None}
    return JobRow(**{"number": number, "device": device, "given": 1.0, "deadline": 9.0, **facts, **changes})


def asked(*devices: str, prototype: str = "mlp:fp32", model: str = "m") -> list[Invitation]:
    return [Invitation(device=device, prototype=prototype, model=digest(model)) for device in devices]
