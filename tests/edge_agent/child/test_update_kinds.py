"""What goes up and what stays, by kind of update."""

from pathlib import Path

import numpy as np
import pytest
import torch

from core.errors import ConfigError
from edge_agent.child.update_kinds import check_kept, make_update, read_kept, share, start_state, with_own
from edge_agent.state.store import EXTRACTOR, RESIDUAL, learned_path
from models.build import build
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.delta import apply_delta
from quant.pack import pack, pack_state, unpack
from wire.tensors import Tensor, decode, encode

SPEC = PrototypeSpec(*parse_prototype("mlp:fp32"), (1, 4, 4), 3, 6)
MODEL = build(SPEC, generator=torch_rng(0, "trained"))
PACKED = pack(MODEL, floats="fp32")
BASE = pack_state(build(SPEC, generator=torch_rng(0, "published")).state_dict(), floats="fp32")
LOGITS = {"label-logits": np.eye(3, dtype=np.float32)}
PREDICTOR = {"predictor.weight", "predictor.bias"}


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("kind", "extra", "sent", "kept"),
    [
        ("state", {}, set(PACKED), set()),
        ("state", LOGITS, {*PACKED, *LOGITS}, set()),
        ("predictor", {}, PREDICTOR, set(PACKED) - PREDICTOR),
        ("predictor", LOGITS, {*PREDICTOR, *LOGITS}, set(PACKED) - PREDICTOR),
        ("logits", LOGITS, set(LOGITS), set(PACKED)),
        ("none", {}, set(), set(PACKED)),
    ],
)
def test_what_is_sent_and_what_is_kept(kind: str, extra: dict, sent: set[str], kept: set[str]) -> None:
    made = share(kind, MODEL, PACKED, extra)
    assert decode(made.body).keys() == sent
    assert set(made.keep) == ({EXTRACTOR} if kept else set())
    if kept:
        assert set(decode(made.keep[EXTRACTOR])) == kept


def test_kinds_that_cannot_be_are_named() -> None:
    with pytest.raises(ConfigError, match="use recipe feddistill"):
        share("logits", MODEL, PACKED, {})
    with pytest.raises(ConfigError, match="unknown kind of update 'gradient'"):
        share("gradient", MODEL, PACKED, {})


def update(kind: str, folder: Path, bits: int | None = None, **other: object) -> tuple[dict, dict]:
    facts = {"published": encode(BASE), "residual": folder / "r", "bits": bits, "example": torch.zeros(1, 1, 4, 4)}
    made = make_update(kind, MODEL, PACKED, **{**facts, **other})
    return decode(made.body), {name: decode(data) for name, data in made.keep.items()}


def test_a_delta_and_its_residual_make_up_the_difference(tmp_path: Path) -> None:
    sent, kept = update("delta", tmp_path, bits=4)
    arrived = apply_delta({name: value.numpy() for name, value in unpack(BASE).items()}, sent)
    for name, value in pack_state(MODEL.state_dict(), floats="fp32").items():
        np.testing.assert_allclose(arrived[name] + kept[RESIDUAL][name], value, atol=1e-6)


def test_the_residual_of_another_model_is_not_used(tmp_path: Path) -> None:
    first, _ = update("delta", tmp_path, bits=8)
    (tmp_path / "r").write_bytes(encode({"predictor.bias": np.ones(5, np.float32)}))
    again, _ = update("delta", tmp_path, bits=8)
    assert encode(again) == encode(first)


def test_a_delta_needs_bits_and_takes_no_logits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without a number of bits"):
        update("delta", tmp_path)
    with pytest.raises(ConfigError, match="logits by label cannot be sent with a delta update"):
        update("delta", tmp_path, bits=4, extra=LOGITS)


def test_training_starts_from_what_the_device_has_kept(tmp_path: Path) -> None:
    own = {name: value + 1 for name, value in BASE.items()}
    (tmp_path / "e").write_bytes(encode(own))
    assert start_state("state", encode(BASE), tmp_path / "e") == encode(BASE)
    assert start_state("predictor", encode(BASE), tmp_path / "absent") == encode(BASE)
    started = decode(start_state("predictor", encode(BASE), tmp_path / "e"))
    assert equal(started, {name: BASE[name] if name in PREDICTOR else own[name] for name in BASE})
    assert equal(decode(start_state("none", encode(BASE), tmp_path / "e")), own)


def test_an_extractor_of_another_shape_is_left_aside() -> None:
    other = {name: np.ones(3, np.float32) for name in BASE}
    assert with_own("predictor", encode(BASE), other) == encode(BASE)


def test_what_cannot_be_read_is_set_aside_and_told(tmp_path: Path) -> None:
    good, bad = (learned_path(tmp_path, "mlp:fp32", what) for what in (EXTRACTOR, RESIDUAL))
    good.parent.mkdir()
    good.write_bytes(encode(BASE))
    bad.write_bytes(b"torn")
    told: list[str] = []
    check_kept(tmp_path, "mlp:fp32", lambda event, text: told.append(f"{event}: {text}"))
    assert told == [f"warning: {bad}: damaged; set aside in damaged/; starting over"]
    assert (good.exists(), bad.exists()) == (True, False)
    assert read_kept(bad) is None
