"""The fleet's mean logits per label, by hand."""

import pytest
import torch

from aggregator.fusion.generator.feddistill import average_label_logits
from core.errors import RoundError

ONE = torch.tensor([[2.0, 0.0], [0.0, 0.0]])  # never saw label 1
TWO = torch.tensor([[4.0, 2.0], [1.0, 3.0]])


def test_a_label_is_averaged_over_the_devices_that_have_it() -> None:
    seen = torch.tensor([[True, False], [True, True]])
    assert average_label_logits([ONE, TWO], seen).tolist() == [[3.0, 1.0], [1.0, 3.0]]


def test_the_authors_average_zeros_of_unseen_labels_too() -> None:
    assert average_label_logits([ONE, TWO]).tolist() == [[3.0, 1.0], [0.5, 1.5]]


def test_a_label_that_nobody_has_stays_at_zero() -> None:
    seen = torch.tensor([[True, False], [True, False]])
    assert average_label_logits([ONE, TWO], seen)[1].tolist() == [0.0, 0.0]


def test_nothing_has_no_average() -> None:
    with pytest.raises(RoundError, match="no label logits"):
        average_label_logits([])
