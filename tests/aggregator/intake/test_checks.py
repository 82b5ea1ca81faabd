"""Does an update fit: every refusal, its words, and that cheap checks come first."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from aggregator.intake.checks import Asked, check_update, read_state
from aggregator.rounds.state import Verdict
from aggregator.tensor_checks import Published
from core.errors import DeviceError
from edge_agent.training.label_privacy import told_counts, told_examples
from tests.aggregator.scripted import FLEET, key_of, seal_update
from wire.envelope import seal
from wire.headers import encode_update
from wire.messages import UpdateHeader
from wire.refusals import RefusalReason, RefusedError
from wire.tensors import Packed, encode

EXPECTED = {"predictor.weight": (2, 3), "predictor.bias": (2,)}
SIGNS = Packed(bits=1, levels=np.array([[1, -1, 1], [1, 1, -1]], np.int8), scale=np.array(0.5, np.float16))
BIAS = np.array([0.25, -1.0], np.float16)
SHAPES = {**EXPECTED, "extractor.body.weight": (3,)}
TENSORS = {"predictor.weight": SIGNS, "predictor.bias": BIAS, "extractor.body.weight": np.ones(3, np.float32)}
MODEL = "5" * 64


def header(**changes: object) -> UpdateHeader:
    facts: dict = {
        "round": 4,
        "device": "pi-07",
        "prototype": "mlp:w1",
        "update": "state",
        "num_examples": 9,
        "label_counts": (4, 5),
        "base": MODEL,
    }
    return UpdateHeader(**{**facts, **changes})


def update(tensors: object = None, **changes: object) -> bytes:
    body = tensors if isinstance(tensors, bytes) else encode(TENSORS if tensors is None else tensors)
    return seal_update("pi-07", encode_update(header(**changes), body), 4)


@dataclass
class Round:
    """What the service would answer, and what it was asked."""

    verdict: Verdict = field(default_factory=Verdict)
    invited: bool = True
    seen: bool = False
    asked: list[str] = field(default_factory=list)

    def check(self, sealed: bytes, *, device: str = "pi-07", fleet: str = FLEET):
        def judge(number: int) -> Verdict:
            self.asked.append(f"judge {number}")
            return self.verdict

        def asked(number: int) -> Asked | None:
            self.asked.append(f"asked {number}")
            return (
                Asked(prototype="mlp:w1", model=MODEL, classes=2, published=Published(shapes=SHAPES))
                if self.invited
                else None
            )

        def replayed(nonce: bytes) -> bool:
            self.asked.append("replayed")
            return self.seen

        key = key_of(device).public_key()
        return check_update(sealed, device=device, key=key, fleet=fleet, judge=judge, asked=asked, replayed=replayed)


def refused(sealed: bytes, words: str, **options: object) -> Round:
    case = Round(**options)
    with pytest.raises(DeviceError, match=words):
        case.check(sealed)
    return case


@pytest.mark.light
def test_a_sound_update_passes_with_its_header_and_nonce() -> None:
    sealed = update()
    checked = Round().check(sealed)
    payload = sealed[2 + sealed[1] : -64]
    assert checked.header == header()
    assert checked.nonce == hashlib.sha256(payload).digest()[:12]
    assert not checked.late
    assert Round(verdict=Verdict(late=True)).check(sealed).late


@pytest.mark.light
@pytest.mark.parametrize(
    "sealed",
    [
        update()[:-70] + b"?" + update()[-69:],
        seal_update("pi-08", encode_update(header(), encode(TENSORS)), 4),
        seal(b"", key=key_of("pi-07"), kind="update", sender="pi-07", fleet="another", round=4),
        b"",
        b"\1" * 200,
    ],
    ids=["altered", "another key", "another fleet", "empty", "noise"],
)
def test_without_a_good_signature_nothing_else_is_looked_at(sealed: bytes) -> None:
    assert refused(sealed, "envelope").asked == []


@pytest.mark.light
def test_another_sender_or_kind_is_refused_before_the_round_is_asked() -> None:
    other = seal(b"", key=key_of("pi-07"), kind="update", sender="pi-08", fleet=FLEET, round=4)
    assert refused(other, "envelope of 'pi-08' where one of 'pi-07'").asked == []
    about = seal(b"", key=key_of("pi-07"), kind="about", sender="pi-07", fleet=FLEET, round=4)
    assert refused(about, "kind 'about' where update was expected").asked == []


@pytest.mark.light
def test_the_round_is_judged_before_the_tensors_are_decoded() -> None:
    garbage = seal_update("pi-07", b"\xff" * 100, 4)
    late = refused(garbage, "late: round 4 is closed", verdict=Verdict(RefusalReason.LATE, late=True))
    assert late.asked == ["judge 4"]
    assert refused(garbage, "not invited to round 4", invited=False).asked == ["judge 4", "asked 4"]
    assert refused(garbage, "a repetition", seen=True).asked == ["judge 4", "asked 4", "replayed"]
    refused(garbage, "update: header of 65535 bytes does not fit")


@pytest.mark.light
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"verdict": Verdict(RefusalReason.LATE, late=True)}, RefusalReason.LATE),
        ({"verdict": Verdict(RefusalReason.NOT_OPENED)}, RefusalReason.NOT_OPENED),
        ({"verdict": Verdict(RefusalReason.ALREADY_COUNTED)}, RefusalReason.ALREADY_COUNTED),
        ({"invited": False}, RefusalReason.NOT_INVITED),
        ({"seen": True}, RefusalReason.REPEATED),
    ],
    ids=lambda value: value.value if isinstance(value, RefusalReason) else "",
)
def test_what_the_round_refuses_has_its_reason_and_text(options: dict, why: RefusalReason) -> None:
    with pytest.raises(RefusedError) as caught:
        Round(**options).check(update())
    assert (caught.value.why, str(caught.value)) == (why, why.say(number=4))


@pytest.mark.light
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "pi-08"}, "the header is of 'pi-08', round 4"),
        ({"round": 3}, "the header is of 'pi-07', round 3, the envelope of round 4"),
        ({"prototype": "cnn:w1"}, "prototype 'cnn:w1', the job asked for 'mlp:w1'"),
        ({"base": "6" * 64}, "trained from model 666666666666…, the job named 555555555555…"),
        ({"update": "delta", "base": "6" * 64}, "trained from model 666666666666…, the job named 555555555555…"),
        ({"update": "delta", "base": None}, "trained from model None"),
        ({"num_examples": 0}, "0 examples"),
        ({"label_counts": (1, 2, 3)}, "counts of 3 labels, the fleet has 2 classes"),
        ({"num_examples": 2**53}, "trained on 9007199254740992 examples, but its label counts sum to 9$"),
        ({"num_examples": 8}, "trained on 8 examples, but its label counts sum to 9$"),
        ({"label_counts": (2**53, 2**53)}, "trained on 9 examples, but its label counts sum to 18014398509481984$"),
        ({"num_examples": 2, "label_counts": (0, 0)}, "trained on 2 examples, but its label counts sum to 0$"),
    ],
)
def test_a_header_that_says_something_else_is_refused(changes: dict, words: str) -> None:
    refused(update(b"never decoded", **changes), words)


@pytest.mark.light
@pytest.mark.parametrize(
    "privacy", [{}, {"epsilon": 0.5}, {"width": 10}, {"epsilon": 0.05, "width": 50}, {"epsilon": 0.001}], ids=str
)
def test_what_an_honest_agent_tells_passes_in_every_mode_of_privacy(privacy: dict) -> None:
    """Exact, noised, binned, both; and so noised that both counts may come to 0."""
    for n in range(40):
        told = told_counts((n, 3), secret=bytes([n]), **privacy)
        assert Round().check(update(num_examples=told_examples(told), label_counts=told)).header.label_counts == told


@pytest.mark.light
def test_a_device_may_tell_no_label_counts_and_then_its_examples_have_nothing_to_agree_with() -> None:
    assert Round().check(update(num_examples=2**53, label_counts=())).header.num_examples == 2**53


@pytest.mark.light
@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({k: v for k, v in TENSORS.items() if k != "predictor.bias"}, "tensor 'predictor.bias' is missing"),
        ({**TENSORS, "predictor.bias": np.ones(3, np.float32)}, r"'predictor.bias' is \(3,\), expected \(2,\)"),
        ({**TENSORS, "predictor.bias": np.ones((1, 2), np.float32)}, r"'predictor.bias' is \(1, 2\), expected \(2,\)"),
        (b"\0" * 50, "magic|not a tensor message|version"),
    ],
)
def test_tensors_that_do_not_fit_are_named(tensors: object, words: str) -> None:
    refused(update(tensors), words)


@pytest.mark.light
def test_a_message_of_more_values_than_the_prototype_has_is_not_unpacked() -> None:
    """A 1-bit tensor grows eightfold in memory: its size is refused before that."""
    bomb = Packed(bits=1, levels=np.ones((1000, 1000), np.int8), scale=np.array(1, np.float16))
    refused(update({**TENSORS, "predictor.weight": bomb}), "absurd shape|over 122 values")


@pytest.mark.light
def test_nan_and_infinity_are_refused() -> None:
    body = bytearray(encode({**TENSORS, "extractor.body.weight": np.array([1, 2, 3], np.float32)}))
    at = body.index(np.array([1, 2, 3], np.float32).tobytes())
    body[at : at + 4] = np.float32(np.inf).tobytes()
    body[-4:] = zlib.crc32(bytes(body[:-4])).to_bytes(4, "little")
    refused(update(bytes(body)), "'extractor.body.weight'.*NaN or infinity")


@pytest.mark.light
def test_a_predictor_update_has_the_predictor_and_nothing_else() -> None:
    predictor = {name: TENSORS[name] for name in EXPECTED}
    assert Round().check(update(predictor, update="predictor")).header.update == "predictor"
    refused(update(update="predictor"), "tensor 'extractor.body.weight' is unexpected")
    refused(update(predictor), "tensor 'extractor.body.weight' is missing")


@pytest.mark.light
def test_a_delta_to_the_right_model_passes() -> None:
    assert Round().check(update(update="delta")).header.update == "delta"


@pytest.mark.light
def test_an_onnx_update_must_be_a_graph() -> None:
    refused(update(b"not a graph", update="onnx"), "ONNX")


def test_quantized_tensors_come_out_as_float() -> None:
    state = read_state("pi-07", {"predictor.weight": SIGNS, "predictor.bias": BIAS}, EXPECTED)
    assert state["predictor.weight"].tolist() == [[0.5, -0.5, 0.5], [0.5, 0.5, -0.5]]
    assert state["predictor.bias"].tolist() == [0.25, -1.0]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"predictor.weight": SIGNS}, "'predictor.bias' is missing"),
        ({"predictor.weight": SIGNS, "predictor.bias": BIAS, "x": BIAS}, "'x' is unexpected"),
        ({"predictor.weight": BIAS, "predictor.bias": BIAS}, r"'predictor.weight' is \(2,\), expected \(2, 3\)"),
    ],
)
def test_what_does_not_fit_is_named_with_its_device(tensors: dict, words: str) -> None:
    with pytest.raises(DeviceError, match="update from 'pi-07'") as caught:
        read_state("pi-07", tensors, EXPECTED)
    assert caught.match(words)


@pytest.mark.light
def test_a_whole_state_as_uint8_is_refused() -> None:
    state = {name: np.ones(shape, np.uint8) for name, shape in SHAPES.items()}
    refused(update(state), r"'.*' is uint8, expected float16 or float32")


LOGITS = np.ones((2, 2), np.float32)


@pytest.mark.light
def test_logits_by_label_go_with_a_model_a_predictor_or_alone() -> None:
    predictor = {name: TENSORS[name] for name in EXPECTED}
    for tensors, kind in ((TENSORS, "state"), (predictor, "predictor"), ({}, "logits")):
        sealed = update({**tensors, "label-logits": LOGITS}, update=kind)
        assert Round().check(sealed).header.update == kind


@pytest.mark.light
@pytest.mark.parametrize(
    ("tensors", "kind", "words"),
    [
        ({"label-logits": np.ones((3, 3), np.float32)}, "logits", r"'label-logits' is \(3, 3\), expected \(2, 2\)"),
        ({"predictor.bias": BIAS, "label-logits": LOGITS}, "logits", "'predictor.bias' is unexpected"),
        ({}, "logits", "without 'label-logits'"),
        ({**TENSORS, "label-logits": LOGITS[0]}, "state", r"expected \(2, 2\)"),
        ({"label-logits": LOGITS.astype(np.uint8)}, "logits", "'label-logits' is uint8"),
        ({"label-logits": LOGITS * 2e6}, "logits", "'label-logits' has a value"),
        ({"label-logits": replace(SIGNS, levels=SIGNS.levels[:, :2])}, "logits", "'label-logits' is 1-bit levels"),
    ],
)
def test_logits_that_do_not_fit_are_refused(tensors: dict, kind: str, words: str) -> None:
    refused(update(tensors, update=kind), words)


@pytest.mark.light
def test_an_update_without_a_tensor_is_taken_where_none_is_shared_and_there_alone() -> None:
    assert Round().check(update({}, update="none")).header.update == "none"
    refused(update({}, update="state"), "is missing")
    refused(update({"predictor.bias": BIAS}, update="none"), "'predictor.bias' is unexpected")
