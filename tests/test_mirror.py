"""Every module has a mirrored test: a/b/c.py is tested by tests/a/b/test_c.py."""

from pathlib import Path

import pytest

from tests.test_layering import ORDER

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parent.parent

#: Modules without one, so far. Write the test, and take the module out of here.
WITHOUT = {
    "edgestill/cli/boards/board.py",
    "edgestill/cli/boards/broker.py",
    "edgestill/cli/boards/doctor.py",
    "edgestill/cli/boards/flash.py",
    "edgestill/cli/boards/keys.py",
    "edgestill/cli/boards/kit.py",
    "edgestill/cli/boards/options.py",
    "edgestill/cli/boards/provision.py",
    "edgestill/cli/boards/push.py",
    "edgestill/cli/display.py",
    "edgestill/cli/jobs_display.py",
    "edgestill/cli/service/agent.py",
    "edgestill/cli/service/aggregator.py",
    "edgestill/cli/service/config.py",
    "edgestill/cli/service/device.py",
    "edgestill/cli/service/device_enrol.py",
    "edgestill/cli/service/model.py",
    "edgestill/cli/service/round.py",
    "edgestill/cli/service/status.py",
    "edgestill/cli/simulation/data.py",
    "edgestill/cli/simulation/experiment.py",
    "edgestill/cli/simulation/prototypes.py",
    "edgestill/cli/simulation/recipe.py",
    "edgestill/cli/simulation/report.py",
    "edgestill/cli/simulation/setting_options.py",
    "edgestill/cli/simulation/simulate.py",
    "edgestill/cli/simulation/sweep.py",
}


def modules() -> set[str]:
    """All modules but those that hold a package's words, or start it."""
    found = {path for package in ORDER for path in (ROOT / package).rglob("*.py")}
    return {str(path.relative_to(ROOT)) for path in found if path.name not in ("__init__.py", "__main__.py")}


def test_every_module_has_a_mirrored_test() -> None:
    missing = {name for name in modules() if not _test_of(name).exists()}
    assert sorted(missing) == sorted(WITHOUT)


def _test_of(module: str) -> Path:
    path = ROOT / "tests" / module
    return path.with_name(f"test_{path.name}")
