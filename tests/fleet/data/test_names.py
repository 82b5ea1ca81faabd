"""Class names stand at their labels."""

from fleet.data.names import CIFAR10, CIFAR100, DIGITS, FASHION


def test_there_is_one_name_for_every_label() -> None:
    assert [len(names) for names in (DIGITS, FASHION, CIFAR10, CIFAR100)] == [10, 10, 10, 100]
    for names in (DIGITS, FASHION, CIFAR10, CIFAR100):
        assert len(set(names)) == len(names)


def test_names_are_in_the_order_of_the_published_labels() -> None:
    assert [DIGITS.index(str(n)) for n in range(10)] == list(range(10))
    assert list(CIFAR10) == sorted(CIFAR10)  # both lists of CIFAR are alphabetical
    assert list(CIFAR100) == sorted(CIFAR100)
    assert (FASHION[0], FASHION[6], FASHION[9]) == ("T-shirt/top", "Shirt", "Ankle boot")
