"""Which samples are used: held out by hash, expired, capped."""

import pytest

from edge_agent.samples.choice import choose, is_held_out
from edge_agent.samples.entries import Entry, digest_bytes
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.task_file import KnownTask
from wire.messages import Task

pytestmark = pytest.mark.light

TASK = KnownTask(input_shape=(2,), classes=2, task=Task(class_names=("cat", "dog")))


def entries(count: int, label: object = "cat", begin: int = 0) -> list[Entry]:
    return [Entry(str(i), label, digest_bytes(b"%d" % i), float(i)) for i in range(begin, begin + count)]


def spec(**facts: object) -> SourceSpec:
    return SourceSpec(path="here", **facts)


def names(found: list[Entry]) -> list[str]:
    return [entry.name for entry in found]


def test_a_sample_never_changes_sides_when_others_come_or_go() -> None:
    few = choose(entries(300), spec(validation=0.2), TASK, now=0, fits=10**9)
    many = choose(entries(1000), spec(validation=0.2), TASK, now=0, fits=10**9)
    assert 0 < len(few.held) < 300
    assert abs(len(many.held) - 200) < 40  # five standard deviations are 63
    assert names(few.held) == [name for name in names(many.held) if int(name) < 300]
    assert set(names(few.train)) | set(names(few.held)) == {str(i) for i in range(300)}
    rising = choose(entries(1000), spec(validation=0.4), TASK, now=0, fits=10**9)
    assert set(names(many.held)) <= set(names(rising.held))
    assert not any(is_held_out(entry.digest, 0.0) for entry in entries(1000))


def test_newest_keeps_the_latest_and_their_order() -> None:
    found = choose(entries(10), spec(max_samples=3), TASK, now=0, fits=10**9)
    assert (names(found.train), found.capped) == (["7", "8", "9"], 7)
    assert names(choose(entries(10), spec(), TASK, now=0, fits=2).train) == ["8", "9"]  # what fits the memory


def test_a_reservoir_is_uniform_and_changes_by_as_many_as_enter() -> None:
    how = spec(max_samples=100, keep="reservoir")
    before = set(names(choose(entries(1000), how, TASK, now=0, fits=10**9).train))
    after = set(names(choose(entries(1100), how, TASK, now=0, fits=10**9).train))
    assert len(before) == len(after) == 100
    assert len(after - before) == len([name for name in after if int(name) >= 1000])
    assert 0 < len(after - before) < 25
    assert 300 < sum(map(int, before)) / 100 < 700


def test_classes_are_capped_before_all_together() -> None:
    both = entries(10) + entries(4, "dog", 10)
    found = choose(both, spec(max_per_class=3), TASK, now=0, fits=10**9)
    assert names(found.train) == ["7", "8", "9", "11", "12", "13"]
    assert names(choose(both, spec(max_per_class=3, max_samples=4), TASK, now=0, fits=10**9).train) == [
        "9",
        "11",
        "12",
        "13",
    ]


def test_expired_unlabeled_and_unknown_samples_are_counted_and_not_used() -> None:
    there = [*entries(5), Entry("x", None, bytes(16), 9.0), Entry("y", "cow", bytes(16), 9.0)]
    found = choose(there, spec(max_age_s=6.5), TASK, now=9.0, fits=10**9)
    assert names(found.train) == ["3", "4"]
    assert (found.expired, found.unlabeled, dict(found.unknown)) == (3, 1, {"cow": 1})


def test_before_the_task_is_known_names_wait_for_it_and_numbers_do_not() -> None:
    assert choose(entries(3), spec(), None, now=0, fits=10**9).named
    assert not choose(entries(3, 1), spec(), None, now=0, fits=10**9).named
    assert choose(entries(3, 2), spec(), TASK, now=0, fits=10**9).unknown["2"] == 3
