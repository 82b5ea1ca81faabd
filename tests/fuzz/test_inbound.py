"""Hostile messages of every kind, signed by real keys: only refusals come of them, and the fleet goes on.

A failing case names itself; `python -m tests.fuzz KIND NUMBER` repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.cases import KINDS, MESSAGES, Case, cases
from tests.fuzz.office import Decoders, Office

CASES, MANY = 500, 5000
IN_SANDBOX = 100  # ONNX graphs that take the way through the process that reads them, of those 500


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    made = Office(tmp_path_factory.mktemp("office"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Decoders:
    return Decoders(tmp_path_factory.mktemp("decoders"))


def meet_all(kind: str, count: int, decoders: Decoders, office: Office, in_sandbox: int) -> None:
    decoders.heard.clear()
    for case in cases(kind, count):
        try:
            decoders.meet(case)
            if kind != "update-onnx" or case.number < in_sandbox:
                office.hand_in(case)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} out of {case}") from error
    office.settle()


def check_depth(kind: str, decoders: Decoders, office: Office) -> None:
    """That the mutants are no mere noise: some are sound, and many different things are wrong with the others."""
    assert decoders.heard["sound"] > 0, kind
    assert len(decoders.heard) >= (6 if kind in MESSAGES else 8), decoders.heard
    assert office.refused[kind] > 0 or kind == "enrol"


@pytest.mark.parametrize("kind", KINDS)
def test_500_hostile_messages_of_each_kind_are_refused_or_sound(kind: str, decoders: Decoders, office: Office) -> None:
    meet_all(kind, CASES, decoders, office, IN_SANDBOX)
    check_depth(kind, decoders, office)


def test_what_was_accepted_of_them_can_be_fused(tmp_path: Path) -> None:
    """In a service of its own: which of the tests above ran in this process must not matter."""
    office = Office(tmp_path / "office")
    for kind in KINDS:
        for case in cases(kind, 120):
            office.hand_in(case)
    assert office.fuse_accepted() > 20
    office.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_5000_hostile_messages_of_each_kind_are_refused_or_sound(kind: str, decoders: Decoders, office: Office) -> None:
    meet_all(kind, MANY, decoders, office, MANY)
    check_depth(kind, decoders, office)
    office.fuse_accepted()


def test_a_case_is_the_same_whenever_it_is_made() -> None:
    def published(case: Case) -> list[str]:
        return [topic for topic, _ in case.messages]

    for kind in KINDS:
        one, other = next(cases(kind, 1)), next(cases(kind, 1))
        assert published(one) == published(other)
        assert one.body == other.body or kind == "enrol"  # an ECDSA proof has chance in it
