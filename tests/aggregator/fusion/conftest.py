from __future__ import annotations

from collections.abc import Sequence

import pytest

from aggregator.fusion.teachers import ensemble as ensembles


@pytest.fixture
def teachers(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Who taught, for every ensemble that was built."""
    seen: list[list[str]] = []
    real = ensembles.Ensemble.__init__

    def init(self: ensembles.Ensemble, teachers: Sequence, *rest: object, **named: object) -> None:
        seen.append([teacher.device for teacher in teachers])
        real(self, teachers, *rest, **named)

    monkeypatch.setattr(ensembles.Ensemble, "__init__", init)
    return seen
