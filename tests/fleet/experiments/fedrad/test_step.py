"""FedRAD's network trained by hand."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from edge_agent.training.params import LocalTraining
from edge_agent.training.sgd import train_local
from fleet.experiments.fedrad.step import _slopes, train_by_hand
from models.build import build
from models.spec import PrototypeSpec, parse_prototype
from models.split import Prototype


def network() -> Prototype:
    arch, precision = parse_prototype("fedrad_mlp:fp32")
    spec = PrototypeSpec(arch=arch, precision=precision, input_shape=(1, 4, 4), classes=10, latent=256)
    return build(spec, generator=torch.Generator().manual_seed(1))


def softmax_first(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The loss of the authors' code: the cross-entropy of a softmax that is taken for logits."""
    return F.cross_entropy(output.softmax(1), y)


@pytest.mark.parametrize("authors", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_without_dropout_it_is_local_training_by_autograd(authors: bool, momentum: float) -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(23, 1, 4, 4, generator=rng), torch.randint(10, (23,), generator=rng)
    how = LocalTraining(lr=0.1, batch_size=8, epochs=3, momentum=momentum)
    ours, theirs = network(), network()
    for module in theirs.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    loss = softmax_first if authors else F.cross_entropy
    train_by_hand(ours, x, y, how, generator=torch.Generator().manual_seed(2), softmax_first=authors, dropout=False)
    train_local(theirs, x, y, how, generator=torch.Generator().manual_seed(2), loss_fn=loss)
    start = network().state_dict()
    for name, value in theirs.state_dict().items():
        assert not torch.equal(value, start[name])
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-5, rtol=1e-4)


def test_dropout_keeps_half_of_the_elements_at_twice_their_size() -> None:
    a = torch.tensor([[1.0, -1.0]]).repeat(1000, 5)
    slopes = _slopes(a, torch.Generator().manual_seed(0))
    assert sorted({round(v, 4) for v in slopes[:, 0::2].flatten().tolist()}) == [0.0, 2.0]
    assert sorted({round(v, 4) for v in slopes[:, 1::2].flatten().tolist()}) == [0.0, 0.2]
    assert abs(float((slopes > 0).double().mean()) - 0.5) < 0.02
    shares = (slopes > 0).double().mean(0)
    assert float(shares.min()) > 0.43  # no column is always dropped
    assert float(shares.max()) < 0.57
