"""`[data]` as helpers and children are told it."""

from pathlib import Path

import pytest

from core.errors import ConfigError
from edge_agent.config import DataConfig
from edge_agent.samples.spec import spec_of

pytestmark = pytest.mark.light


def test_every_key_that_concerns_the_source_is_told() -> None:
    data = DataConfig(
        path=Path("/data/s.csv"), kind="csv", columns=("x",), window=8, stride=4, max_samples=9, validation=0.1
    )
    spec = spec_of(data, 300)
    assert (spec.path, spec.kind, spec.columns, spec.window, spec.stride) == ("/data/s.csv", "csv", ("x",), 8, 4)
    assert (spec.min_samples, spec.max_samples, spec.validation, spec.memory_mb) == (20, 9, 0.1, 300)
    assert spec_of(DataConfig(path=Path("/a.npz"))).min_samples == 1


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kind": "python"}, "go together"),
        ({"loader": "a:b"}, "go together"),
        ({"window": 8}, "'window' is of kind csv, but 'kind' is 'npz'"),
        ({"kind": "csv", "stride": 8}, "'stride' is given without 'window'"),
        ({"max_age_s": 9.0}, "have no time"),
        ({"labels": "../x"}, "give the name of a file"),
    ],
)
def test_keys_that_do_not_belong_together_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DataConfig(path=Path("x"), **keys)
