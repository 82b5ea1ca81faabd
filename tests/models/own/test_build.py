"""Prototypes of own networks."""

import pytest
import torch
from torch import nn

from core import own_code
from core.errors import ModelError
from models.build import build
from models.own.network import own_network
from quant.pack import load_packed, pack
from tests.models.own import nets


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_code, "_lent", {})


def seed() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def lend(thing: object) -> None:
    own_code.lend("model", "Mine", own_network("Mine", thing))


@pytest.mark.parametrize("precision", ["fp32", "w1", "w1a1", "w4a4"])
def test_equal_seeds_give_equal_weights_and_they_travel(precision: str) -> None:
    lend(nets.Net)
    one, other = (build(nets.spec(precision), generator=seed()).eval() for _ in range(2))
    x = nets.images()
    assert torch.equal(one(x), other(x))
    assert one.latent == 12
    third = build(nets.spec(precision)).eval()
    load_packed(third, pack(one, floats="fp32"))
    assert torch.equal(third(x), one(x))


def test_at_full_precision_it_is_the_users_network() -> None:
    lend(nets.Net)
    torch.manual_seed(0)
    net = nets.Net(classes=4)
    lend(net)
    model = build(nets.spec(), generator=seed()).eval()
    assert torch.equal(model(nets.images()), net.eval()(nets.images()))
    model.extractor.body.net.fc1.weight.data.zero_()  # type: ignore[union-attr]
    assert net.fc1.weight.any()


def test_a_fleets_latent_is_reached_by_an_adapter() -> None:
    lend(nets.Net)
    model = build(nets.spec("w1", latent=9), generator=seed()).eval()
    assert model.extractor(nets.images()).shape == (5, 9)
    assert model(nets.images()).shape == (5, 4)
    lend(nets.ByHand)
    assert build(nets.spec(latent=7)).latent == 7
    with pytest.raises(ModelError, match="takes a latent of 7, the fleet's has 9; give latent=7"):
        build(nets.spec(latent=9))


def needs_more(width: int) -> nn.Module:
    return nets.Net(hidden=width)


def gives_none() -> None:
    return None


def fails() -> nn.Module:
    raise ValueError("two\nlines")


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (needs_more, "takes an argument 'width' without a default; known: classes"),
        (gives_none, "gave a NoneType; return an nn.Module"),
        (fails, r"building it failed \(ValueError: two lines\)"),
    ],
)
def test_what_cannot_be_built_says_why_in_one_line(thing: object, says: str) -> None:
    lend(thing)
    with pytest.raises(ModelError, match=says) as caught:
        build(nets.spec())
    assert "\n" not in str(caught.value)
