"""What is announced of samples."""

import pytest

from edge_agent.samples.choice import choose
from edge_agent.samples.entries import Entry, Listing, digest_bytes
from edge_agent.samples.spec import SourceSpec
from edge_agent.samples.survey import Survey, make_survey
from edge_agent.samples.task_file import KnownTask
from wire.messages import DataState, Task

pytestmark = pytest.mark.light
KNOWN = KnownTask(input_shape=(2,), classes=3, task=Task(class_names=("cat", "dog", "cow")))


def survey(labels: list[object], rejected: dict[str, str] | None = None, known: KnownTask | None = KNOWN) -> Survey:
    spec = SourceSpec(path="/here", min_samples=3)
    entries = [Entry(str(i), label, digest_bytes(b"%d" % i)) for i, label in enumerate(labels)]
    listing = Listing(entries, rejected or {})
    return make_survey(spec, listing, choose(entries, spec, known, now=0, fits=10**9), known)


def test_a_board_with_enough_of_every_class_has_nothing_to_say() -> None:
    made = survey(["cow", "cat", "dog", "cow"])
    assert (made.label_counts, made.counts, made.ready) == ((1, 1, 2), {"cat": 1, "cow": 2, "dog": 1}, True)
    assert made.state(private=False) is None


def test_what_is_missing_unknown_or_set_aside_is_announced() -> None:
    made = survey(["cat", "cat", "sheep", None], {"x.png": "cut short", "y.png": "none"})
    assert made.state(private=False) == DataState(
        waiting="waiting for samples in /here: 2 of 3",
        unlabeled=1,
        rejected=2,
        reason="x.png: cut short",
        unknown={"sheep": 1},
        lacks=("dog", "cow"),
    )


def test_private_counts_give_no_class_and_no_number_away() -> None:
    made = survey(["cat", "cat", "sheep"])
    assert made.state(private=True) == DataState(waiting="waiting for samples in /here")
    assert survey(["cow", "cat", "dog"]).state(private=True) is None  # ready: it does not wait
    assert survey([]).state(private=True) == DataState(waiting="waiting for samples in /here: 0 of 3")


def test_a_board_with_other_files_alone_says_what_it_passes_over() -> None:
    spec, over = SourceSpec(path="/here", min_samples=3), {"b.heic": "not a picture", "a.txt": "not a picture"}
    made = make_survey(spec, Listing(passed_over=over), choose([], spec, KNOWN, now=0, fits=1), KNOWN)
    assert made.waiting == "waiting for samples in /here: 0 of 3; 2 passed over, such as a.txt: not a picture"
    assert (made.passed_over_count, list(made.passed_over)) == (2, ["a.txt", "b.heic"])
    assert made.state(private=True) == DataState(waiting="waiting for samples in /here")
    entries = [Entry("c.png", "cat", b"")]
    some = make_survey(spec, Listing(entries, passed_over=over), choose(entries, spec, KNOWN, now=0, fits=1), KNOWN)
    assert some.waiting == "waiting for samples in /here: 1 of 3"


def test_an_announcement_stays_small() -> None:
    many = KnownTask(input_shape=(2,), classes=200, task=Task(class_names=tuple(f"class {i}" for i in range(200))))
    state = survey(["class 0", *(f"{'x' * 90} {i}" for i in range(500))], {"f" * 300: "r" * 300}, many).state(
        private=False
    )
    assert state is not None
    assert (len(state.unknown), len(state.lacks), len(state.reason)) == (20, 20, 200)
