"""A user's files that hide our packages, in real interpreters started in their folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.processes.python_child import import_path
from edgestill.hidden import PACKAGES, hidden_packages
from tests.test_layering import ORDER

pytestmark = pytest.mark.light


def started(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """An interpreter in `folder`, which is first on its path, as in a notebook."""
    env = {"PYTHONPATH": f"{folder}:{import_path()}", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_every_package_is_looked_after() -> None:
    assert sorted(PACKAGES) == sorted(set(ORDER) - {"edgestill"})
    assert hidden_packages() == {}


def test_models_py_beside_a_notebook_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("class MyNet: ...\n")
    done = started(tmp_path, "-c", "import edgestill")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    expected = f"{tmp_path.resolve() / 'models.py'} hides edgestill's package 'models'; rename it, or work in another"
    assert last.startswith(f"ImportError: {expected}")


def test_a_folder_without_init_hides_too(tmp_path: Path) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire" / "__init__.py").touch()
    (tmp_path / "core.py").touch()
    done = started(tmp_path, "-c", "import edgestill")
    assert "hides edgestill's package 'wire'" in done.stderr
    assert "hides edgestill's package 'core'" in done.stderr
    assert "rename them" in done.stderr


def test_modules_that_are_imported_already_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "fleet.py").touch()
    code = f"import sys; import fleet; sys.path.remove({str(tmp_path)!r}); sys.path.pop(0); import edgestill"
    assert "hides edgestill's package 'fleet'" in started(tmp_path, "-c", code).stderr


def test_the_command_line_exits_with_that_line(tmp_path: Path) -> None:
    (tmp_path / "models.py").touch()
    done = started(tmp_path, "-m", "edgestill", "version")
    assert done.returncode == 3
    assert done.stderr.startswith("edgestill: ")
    assert len(done.stderr.splitlines()) == 1


def test_other_files_are_no_matter(tmp_path: Path) -> None:
    (tmp_path / "mymodels.py").touch()
    done = started(tmp_path, "-c", "import edgestill, sys; print('torch' in sys.modules, 'numpy' in sys.modules)")
    assert (done.stdout.strip(), done.returncode) == ("False False", 0)
