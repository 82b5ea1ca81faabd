"""Engines by name."""

import os

import pytest

from core.errors import ConfigError
from fleet.engines.base import make_engine
from fleet.engines.inline import Inline
from fleet.engines.processes import Processes
from fleet.engines.work import Bench
from tests.fleet.engines.benches import bench


@pytest.fixture(scope="module")
def made() -> Bench:
    return bench()


def test_an_engine_is_made_by_its_name(made: Bench) -> None:
    assert isinstance(make_engine("inline", made), Inline)
    engine = make_engine("processes", made, workers=3)
    assert isinstance(engine, Processes)
    assert engine.workers == 3
    engine.close()  # nothing was started


def test_an_unknown_engine_is_told_with_the_known_ones(made: Bench) -> None:
    with pytest.raises(ConfigError, match="engine 'threads'; known: inline processes ray"):
        make_engine("threads", made)


def test_a_system_that_cannot_fork_is_told_what_to_use(made: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(ConfigError, match="use --engine inline"):
        make_engine("processes", made)
