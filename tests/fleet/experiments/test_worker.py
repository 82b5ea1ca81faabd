"""One run, in this process: what it keeps, and how its failure is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import DataError
from fleet.experiments.store import Store, Work
from fleet.experiments.worker import main, measure


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "out")
    made.make()
    return made


def test_a_run_is_made_at_its_fidelity_and_seed_and_kept(
    toy: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([toy, "two", "reference", "3", str(store.folder)]) == 0
    kept = store.read(Work("two", "reference", 3))
    assert kept is not None
    assert kept["facts"] == {"value": 105}
    assert capsys.readouterr().out == "counting to 2\n"


def test_an_error_is_the_last_line_and_the_exit_code_and_nothing_is_kept(
    toy: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([toy, "seven/of 9", "paper", "13", str(store.folder)]) == DataError.exit_code
    assert capsys.readouterr().out.splitlines()[-1] == "seed 13 is unlucky; choose another"
    assert store.read(Work("seven/of 9", "paper", 13)) is None


def test_a_bug_is_not_taken_for_a_failed_run(toy: str, store: Store) -> None:
    with pytest.raises(KeyError):
        measure(toy, Work("no such run", "paper", 0), store)
