"""docs/provisioning.md is true: its manifest is provisioned as it stands, its tables are those of the code."""

from pathlib import Path

import pytest

from aggregator.config.fleet import load_fleet_config
from firmware_configs.boards import boards
from firmware_configs.manifest import load_manifest
from firmware_configs.provision import provision
from tests.docs.test_docs import ROOT, names_in, snippets, table_rows

PAGE = "docs/provisioning.md"


@pytest.mark.parametrize("uncommented", [False, True])
def test_the_manifest_of_the_page_makes_the_kits_it_says(tmp_path: Path, uncommented: bool) -> None:
    fleet, secrets = (s.code for s in snippets(ROOT / PAGE) if s.language == "toml")
    if uncommented:  # the keys shown with their defaults exist too
        (tmp_path / "boards").mkdir()
        fleet = fleet.replace("\n# ", "\n").replace('update = "delta"', 'update = "delta"\ndelta_bits = 4\n')
    (tmp_path / "fleet.toml").write_text(fleet)
    (tmp_path / "secrets.toml").write_text(secrets)
    (tmp_path / "secrets.toml").chmod(0o600)
    done = provision(load_manifest(tmp_path / "fleet.toml", environ={}))
    assert done.made == ["pi-01", "pi-02", "pi-03", "press", "oven"]
    assert set(load_fleet_config(tmp_path / "fleet.toml", environ={}).devices) == set(done.made)


def test_the_boards_are_those_that_there_are() -> None:
    rows = table_rows(PAGE, "Boards")
    assert sorted(name for row in rows for name in names_in(row[0])) == sorted(boards())
    for names, training, systems in rows:
        for name in names_in(names):
            assert training.split(":")[0] == boards()[name].mode
            assert tuple(systems.split(", ")) == boards()[name].os
