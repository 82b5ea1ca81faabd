"""What the fuzzer starts from: a fleet's models, honest updates of every kind, a card with a claim. No chance in it."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aggregator.storage.artifacts import seal_artifact
from aggregator.worker.first_model import wire_floats
from models.build import build
from models.roles import slice_state
from models.seeding import torch_rng
from models.spec import PrototypeSpec, parse_prototype
from quant.delta import encode_delta
from quant.onnx.export import export_onnx
from quant.pack import pack, pack_state, unpack
from tests.aggregator.scripted import FLEET, key_of
from wire.enrolment import claim_name
from wire.ids import AGGREGATOR, digest_of
from wire.messages import ModelHeader
from wire.tensors import Tensor, encode

__all__ = [
    "BOARD",
    "CLASSES",
    "PROTOTYPES",
    "UPDATES",
    "artifact",
    "authority",
    "authority_key",
    "claim",
    "claim_key",
    "digest",
    "graph",
    "honest",
    "spec_of",
    "tls_key",
]

INPUT, CLASSES, LATENT = (1, 8, 8), 3, 8
PROTOTYPES = ("cnn:fp32", "cnn:w1", "cnn:w8a8")
UPDATES = ("state", "delta", "predictor", "onnx", "logits", "none")
BOARD = "new-board"  # it has a card, and is not enrolled
BEGIN, END = datetime(2020, 1, 1, tzinfo=timezone.utc), datetime(2099, 1, 1, tzinfo=timezone.utc)


def spec_of(prototype: str) -> PrototypeSpec:
    return PrototypeSpec(*parse_prototype(prototype), INPUT, CLASSES, LATENT)


@cache
def artifact(prototype: str) -> bytes:
    """The first model, as it is published."""
    spec = spec_of(prototype)
    model = build(spec, generator=torch_rng(3, "init", prototype))
    header = ModelHeader(
        round=0, prototype=prototype, input_shape=INPUT, classes=CLASSES, latent=LATENT, recipe="start"
    )
    body = encode(pack_state(model.state_dict(), floats=wire_floats(spec)))
    return seal_artifact(header, body, key=key_of(AGGREGATOR), fleet=FLEET)


@cache
def _trained(prototype: str) -> Any:
    return build(spec_of(prototype), generator=torch_rng(4, "trained", prototype)).eval()


@cache
def honest(prototype: str, kind: str) -> dict[str, Tensor]:
    """The tensors of an update that an honest device sends."""
    model = _trained(prototype)
    if kind == "logits":
        return {"label-logits": np.eye(CLASSES, dtype=np.float32)}
    if kind == "none":
        return {}
    if kind == "delta":
        arrays = [cast("dict[str, Any]", pack_state(m.state_dict(), floats="fp32")) for m in (model, _start(prototype))]
        return encode_delta(arrays[0], arrays[1], None, 4)[0]
    packed = pack(model, floats="fp16")
    return slice_state(packed, "predictor") if kind == "predictor" else packed


def _start(prototype: str) -> Any:
    model = build(spec_of(prototype), generator=torch_rng(3, "init", prototype))
    model.load_state_dict(unpack(pack_state(model.state_dict(), floats=wire_floats(spec_of(prototype)))), strict=False)
    return model


@cache
def graph(prototype: str) -> bytes:
    """An honest update of kind onnx."""
    data: bytes = export_onnx(_trained(prototype), torch.zeros(1, *INPUT)).data
    return data


def digest(prototype: str) -> str:
    return digest_of(artifact(prototype))


# a card


def _key(number: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(number, ec.SECP256R1())


authority_key, claim_key, tls_key = _key(1001), _key(1002), _key(1003)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: str, key: ec.EllipticCurvePrivateKey, serial: int, *, ca: bool) -> x509.Certificate:
    builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name("fuzzed authority"))
    builder = builder.public_key(key.public_key()).serial_number(serial).not_valid_before(BEGIN).not_valid_after(END)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return builder.sign(authority_key, hashes.SHA256(), ecdsa_deterministic=True)


@cache
def authority() -> x509.Certificate:
    return _certificate("fuzzed authority", authority_key, 1, ca=True)


@cache
def claim() -> bytes:
    """The claim on the card, DER."""
    made = _certificate(claim_name(BOARD), claim_key, 2, ca=False)
    return made.public_bytes(serialization.Encoding.DER)
