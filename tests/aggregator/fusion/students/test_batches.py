"""Which samples distillation uses, and in which order."""

from itertools import islice

import torch

from aggregator.fusion.students.batches import batches, draw_samples, num_steps
from aggregator.recipes.catalogue import Distillation


def seed(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def test_few_steps_use_few_samples_and_every_one_of_them_is_drawn() -> None:
    few = Distillation(steps=3, batch_size=4)
    used = draw_samples(100, few, seed())
    assert len(used) == 12
    assert used.tolist() == sorted(set(used.tolist()))
    assert torch.equal(used, draw_samples(100, few, seed()))
    assert not torch.equal(used, draw_samples(100, few, seed(1)))
    assert draw_samples(100, Distillation(steps=3, batch_size=4, shuffle=False), seed()).tolist() == list(range(12))


def test_many_steps_or_epochs_use_all_samples() -> None:
    assert draw_samples(10, Distillation(steps=3, batch_size=4), seed()).tolist() == list(range(10))
    assert draw_samples(10, Distillation(steps=1, batch_size=4, epochs=2), seed()).tolist() == list(range(10))


def test_epochs_count_batches_and_no_batch_has_one_sample() -> None:
    assert (
        num_steps(9, Distillation(epochs=2, batch_size=4, steps=1000)) == 4
    )  # 4 and 4; the ninth sample alone is left out
    assert num_steps(10, Distillation(epochs=2, batch_size=4, steps=1000)) == 6
    assert num_steps(10, Distillation(epochs=2, batch_size=4, steps=5)) == 5
    assert num_steps(1, Distillation(epochs=2, batch_size=4)) == 2


def test_an_epoch_ends_with_its_last_batch_and_the_next_one_follows() -> None:
    how = Distillation(batch_size=4, shuffle=False)
    drawn = [(epoch, last, chosen.tolist()) for epoch, last, chosen in islice(batches(9, how, seed()), 4)]
    assert drawn == [
        (0, False, [0, 1, 2, 3]),
        (0, True, [4, 5, 6, 7]),  # the ninth alone is left out
        (1, False, [0, 1, 2, 3]),
        (1, True, [4, 5, 6, 7]),
    ]


def test_a_shuffled_epoch_has_every_sample_once_in_an_order_of_its_own() -> None:
    drawn = list(islice(batches(12, Distillation(batch_size=4), seed()), 6))
    first, second = (torch.cat([chosen for epoch, _, chosen in drawn if epoch == n]).tolist() for n in (0, 1))
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    assert first == torch.randperm(12, generator=seed()).tolist()


def test_batches_of_one_sample_are_kept_where_all_are() -> None:
    assert num_steps(3, Distillation(epochs=1, batch_size=1)) == 3
    assert num_steps(1, Distillation(epochs=1, batch_size=8)) == 1
