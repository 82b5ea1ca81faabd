"""A sweep's folder is read by points; a file that is none is refused in one line."""

import json
from pathlib import Path

import pytest

from core.errors import DataError
from fleet.sweep.stored import is_sweep, read_stored
from tests.fleet.sweep.made import swept


def test_runs_that_differ_in_the_seed_are_one_group(tmp_path: Path) -> None:
    folder = swept(tmp_path / "sweep")
    assert is_sweep(folder)
    assert is_sweep(folder / "sweep.json")
    assert not is_sweep(folder / "runs" / "recipe=fedavg,seed=0")
    for path in (folder, folder / "sweep.json"):
        sweep = read_stored(path)
        assert [group.name for group in sweep.groups] == ["recipe=fedavg", "recipe=fedrad"]
        assert [[point["seed"] for point in group.points] for group in sweep.groups] == [[0, 1], [0, 1]]
        assert len(sweep.runs) == 4
        assert sweep.missing == ["late"]


def test_seeds_alone_are_one_group_with_a_name(tmp_path: Path) -> None:
    folder = swept(tmp_path / "sweep", names=("fedavg",))
    facts = json.loads((folder / "sweep.json").read_text())
    for run in facts["runs"]:
        del run["point"]["recipe"]
    (folder / "sweep.json").write_text(json.dumps(facts))
    assert [group.name for group in read_stored(folder).groups] == ["all seeds"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not that of a sweep"),
        ('{"runs": 3}', "not that of a sweep"),
        ('{"runs": []}', "no run is complete"),
        ('{"runs": [{"run": "../../etc", "point": {}}]}', "not the name of a folder"),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(DataError, match=why):
        read_stored(tmp_path)
