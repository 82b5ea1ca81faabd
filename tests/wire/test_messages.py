"""The fields of every message, in the order in which they travel, and what a message refuses to hold.

Bytes and errors of decoding: test_codec.py.
"""

import math
from typing import Any

import pytest

from core.errors import EnvelopeError
from wire import board_reports
from wire.messages import MAX_COUNT, MODEL_STAYS, About, Hyper, Job, Message, Metrics, Missing, Task, UpdateKind

pytestmark = pytest.mark.light

#: As older readers and stored envelopes have them: a new field goes last, none is renamed, moved or dropped.
FIELDS = {
    "state": "status session",
    "about": "board prototype precision label_counts noised versions data",
    "job": "round deadline prototype update hyper model bits side_artifact device epoch number",
    "offer": "round prototype model side_artifact device epoch number",
    "accepted": "transfer round",
    "rejected": "transfer round reason why",
    "missing": "transfer ranges",
    "metrics": "round train_loss seconds temperature_c memory_mb bytes_up bytes_down problem",
    "telemetry": "round stage done total temperature_c throttled undervoltage load processors memory_mb"
    " memory_total_mb disk_mb battery on_battery",
    "ask": "device number lines",
    "log": "number lines withheld",
    "desired": "device version settings",
    "reported": "version status settings refused reason",
    "installing": "number reason",
    "enrol": "device csr claim proof",
    "enrolled": "device keys status certificate reason",
    "update": "round device prototype update num_examples label_counts base metrics",
    "model": "round prototype input_shape classes latent recipe parents metrics task",
    "Hyper": "batch_size lr epochs steps momentum weight_decay seed extra",  # inside a job
    "DataState": "waiting unlabeled rejected reason unknown lacks",  # inside an about
    "Task": "class_names kind mean std sample_rate",  # inside a model's header
}


def test_fields_travel_in_the_order_that_older_readers_know() -> None:
    kinds = {kind.__struct_config__.tag or kind.__name__: kind for kind in Message.__subclasses__()}
    assert board_reports.Telemetry in kinds.values()
    assert {tag: " ".join(kind.__struct_fields__) for tag, kind in kinds.items()} == FIELDS


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda v: Metrics(train_loss=v), "Metrics.train_loss"),
        (lambda v: Hyper(batch_size=1, lr=v, epochs=1), "Hyper.lr"),
        (lambda v: Hyper(batch_size=1, lr=0.1, epochs=1, extra={"a": 0.0, "mu": v}), "Hyper.extra"),
    ],
)
def test_no_float_is_nan_or_infinite(make: Any, field: str, value: float) -> None:
    make(0.5)
    with pytest.raises(EnvelopeError, match=f"^{field}: holds NaN or infinity"):
        make(value)


def test_local_training_is_given_in_epochs_or_in_steps() -> None:
    assert (Hyper(batch_size=8, lr=0.1, steps=5).epochs, Hyper(batch_size=8, lr=0.1, epochs=2).steps) == (None, None)
    for both in ({}, {"epochs": 1, "steps": 1}):
        with pytest.raises(EnvelopeError, match="exactly one"):
            Hyper(batch_size=8, lr=0.1, **both)


@pytest.mark.parametrize(("update", "bits"), [("delta", None), ("state", 1), ("onnx", 8)])
def test_bits_come_with_a_delta_and_with_nothing_else(update: UpdateKind, bits: Any) -> None:
    hyper = Hyper(batch_size=8, lr=0.1, epochs=1)
    with pytest.raises(EnvelopeError, match=r"^Job\.bits"):
        Job(round=1, deadline=1.0, prototype="cnn:w1", update=update, hyper=hyper, model="ab" * 32, bits=bits)


def test_label_counts_may_sum_to_what_a_float64_counts_exactly_and_no_more() -> None:
    def about(*counts: int) -> About:
        return About(board="pi4", prototype="cnn:w1", precision="w1", label_counts=counts)

    assert float(MAX_COUNT) + 1 == float(MAX_COUNT)  # the bound: from here on whole numbers are lost
    about(MAX_COUNT - 1, 1)
    with pytest.raises(EnvelopeError, match=r"About\.label_counts"):
        about(MAX_COUNT, 1)


@pytest.mark.parametrize("ranges", [((2, 2),), ((3, 2),), ((0, 2), (1, 3)), ((0, 2), (2, 3)), ((4, 5), (0, 1))])
def test_missing_ranges_ascend_with_a_gap_between_them(ranges: Any) -> None:
    Missing(transfer="t", ranges=((0, 2), (3, 4)))
    with pytest.raises(EnvelopeError, match=r"Missing\.ranges"):
        Missing(transfer="t", ranges=ranges)


def test_no_model_goes_up_with_logits_or_nothing() -> None:
    assert set(MODEL_STAYS) == {"logits", "none"}


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"class_names": ("a", "b", "a")}, "twice"),
        ({"class_names": ("a/b",)}, "cannot name a folder"),
        ({"class_names": ("a\\b",)}, "cannot name a folder"),
        ({"class_names": ("..",)}, "cannot name a folder"),
        ({"class_names": (".hidden",)}, "cannot name a folder"),
        ({"class_names": (" a",)}, "cannot name a folder"),
        ({"class_names": ("a\n",)}, "cannot name a folder"),
        ({"class_names": tuple(f"{n:099d}" for n in range(300))}, "24576 bytes in all"),
        ({"mean": (1.0,)}, "give both"),
        ({"std": (1.0,)}, "give both"),
        ({"mean": (1.0, 2.0), "std": (1.0, 2.0, 3.0)}, "one per channel"),
        ({"mean": (math.nan,), "std": (1.0,)}, "must be finite"),
        ({"mean": (0.0,), "std": (0.0,)}, "std above 0"),
        ({"sample_rate": 0.0}, "above 0"),
    ],
)
def test_a_task_that_no_device_could_follow_is_refused(told: Any, message: str) -> None:
    with pytest.raises(EnvelopeError, match=rf"^Task\..*{message}"):
        Task(**told)


def test_a_task_may_say_little_and_names_of_any_script() -> None:
    assert Task() == Task(class_names=(), kind=None, mean=(), std=(), sample_rate=None)
    assert Task(class_names=("Äpfel", "洋梨", "St. Bernard"), mean=(1.0,), std=(1.0, 2.0, 3.0)).std == (1.0, 2.0, 3.0)
