"""Rows and columns of a report's tables."""

from pathlib import Path

from fleet.report.figures.devices import MOST
from fleet.report.html.tables import comparison, configuration, devices, own_models, prototypes
from tests.fleet.report.made import BIT, CNN, a_run, facts, result


def test_prototypes_have_their_last_scores_and_columns_without_a_value_are_excluded(tmp_path: Path) -> None:
    table = prototypes(facts(tmp_path / "run"), 0.7)
    assert table.caption == "After round 3, on the whole test set"
    by_name = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert (by_name[CNN]["accuracy"], by_name[BIT]["accuracy"]) == ("90.0 %", "65.0 %")
    assert (by_name[CNN]["float weights"], by_name[BIT]["float weights"]) == ("–", "77.5 %")
    goal = "70\u00a0%"
    assert (by_name[CNN][f"{goal} in round"], by_name[BIT][f"{goal} in round"]) == ("2", "not reached")
    assert "its average" not in table.columns


def test_runs_of_different_prototypes_share_a_table(tmp_path: Path) -> None:
    other = a_run(attacker=False)
    for one in other.rounds:
        del one.prototypes[BIT]
    table = comparison([facts(tmp_path / "a"), facts(tmp_path / "b", other)], 0.7)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["run"] for row in rows] == ["a", "b"]
    assert (rows[0][BIT], rows[1][BIT]) == ("65.0 %", "–")
    assert rows[1]["mean"] == rows[1][CNN] == "90.0 %"


def test_a_device_that_was_excluded_is_told_with_the_reason(tmp_path: Path) -> None:
    table = devices(facts(tmp_path / "run"))
    (bad,) = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[0] == "sim-3"]
    assert bad["excluded"] == "3×: is hardly ever the median"
    assert bad["attack"] == "faulty"
    assert [table.columns[n] for n in table.text] == ["prototype", "excluded", "attack"]
    assert table.kind(list(table.columns).index("attack")) == "text"
    assert table.kind(0) == "number"


def test_devices_beyond_what_is_shown_are_counted(tmp_path: Path) -> None:
    run = a_run()
    run.fleet[:] = [{**run.fleet[0], "device": f"sim-{n:03}"} for n in range(MOST + 7)]
    table = devices(facts(tmp_path / "run", run))
    assert len(table.rows) == MOST
    assert table.caption.endswith("; 7 more are not shown")


def test_settings_are_flat_and_those_that_differ_marked(tmp_path: Path) -> None:
    table = configuration([facts(tmp_path / "a"), facts(tmp_path / "b", a_run(seed=1, source=None))])
    rows = {row[0]: list(row[1:]) for row in table.rows}
    assert rows["training.lr"] == ["0.1", "0.1"]
    assert rows["seed"] == ["0", "1"]
    assert rows["source"] == ["–", "–"]
    assert [table.rows[n][0] for n in table.marked] == ["seed"]
    assert table.note == "; rows marked ≠ differ"
    alone = configuration([facts(tmp_path / "c")])
    assert (list(alone.columns), list(alone.marked), alone.note) == (["setting", "value"], [], "")


def test_own_models_have_a_table_only_where_they_were_scored(tmp_path: Path) -> None:
    assert own_models(facts(tmp_path / "run")) is None
    run = a_run((0.9,), fusion={"personal": True})
    run.rounds[0].prototypes[CNN] = result(0.9, whole_accuracy=0.5)
    table = own_models(facts(tmp_path / "personal", run))
    assert table is not None
    assert "personal models, which their boards run" in table.caption
