"""FedDistill's loss and its counting of logits, by hand."""

import torch
from torch import nn
from torch.nn import functional as F

from edge_agent.objectives.feddistill import DistilledObjective, LabelLogits
from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local

Y = torch.tensor([0, 1, 0])
LOGITS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class Same(nn.Module):
    """Gives its parameter, whatever the input."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(LOGITS.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[: len(x)]


def test_means_by_label_with_and_without_the_authors_count_of_one() -> None:
    seen = LabelLogits.fresh(2)
    seen.add(LOGITS, Y)
    assert seen.means(prior=0.0).tolist() == [[3.0, 4.0], [3.0, 4.0]]
    torch.testing.assert_close(seen.means(), torch.tensor([[2.0, 8 / 3], [1.5, 2.0]]))


def test_a_label_that_was_never_seen_is_zero() -> None:
    seen = LabelLogits.fresh(3)
    seen.add(torch.ones(1, 3), torch.tensor([1]))
    assert seen.means(prior=0.0)[2].tolist() == [0.0, 0.0, 0.0]


def test_counting_goes_on_from_what_was_kept() -> None:
    seen = LabelLogits.fresh(2)
    seen.add(LOGITS, Y)
    again = LabelLogits.from_state(seen.state(), 2)
    again.add(LOGITS, Y)
    assert again.counts.tolist() == [4.0, 2.0]
    assert seen.counts.tolist() == [2.0, 1.0]
    assert LabelLogits.from_state(seen.state(), 5).sums.shape == (5, 5)  # of other classes: begins anew
    assert LabelLogits.from_state({}, 2).counts.tolist() == [0.0, 0.0]


def test_without_a_teacher_the_loss_is_the_cross_entropy() -> None:
    model = Same()
    loss = DistilledObjective(LabelLogits.fresh(2))(model, torch.zeros(3, 1), Y)
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, Y))


def test_the_teacher_adds_its_divergence() -> None:
    teacher, model = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), Same()
    loss = DistilledObjective(LabelLogits.fresh(2), teacher, weight=0.5)(model, torch.zeros(3, 1), Y)
    target = teacher[Y].softmax(1)
    divergence = (target * (target.log() - LOGITS.log_softmax(1))).sum() / 3
    torch.testing.assert_close(loss, F.cross_entropy(LOGITS, Y) + 0.5 * divergence)


def test_training_counts_what_it_computes_and_keeps_no_graph() -> None:
    seen = LabelLogits.fresh(2)
    x, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1] * 4)
    how = LocalTraining(lr=0.1, batch_size=4, epochs=3)
    train_local(nn.Linear(3, 2), x, y, how, generator=torch.Generator(), objective=DistilledObjective(seen))
    assert seen.counts.tolist() == [12.0, 12.0]
    assert not seen.sums.requires_grad
