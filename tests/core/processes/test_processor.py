"""A package for another processor is recognised by how its process ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.processes import processor
from core.processes.processor import import_fault, processor_fault

pytestmark = pytest.mark.light

NUMPY = "NumPy was built with baseline optimizations: \\n(X86_V2) but your machine doesn't support:\\n(X86_V2)."


def package(folder: Path, code: str) -> str:
    """A package that ends its process in this way."""
    (folder / "fragile").mkdir()
    (folder / "fragile/__init__.py").write_text(code)
    return "fragile"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n",
            "another processor (illegal instruction)",
        ),
        (f'raise RuntimeError("{NUMPY}")\n', "another processor (RuntimeError: NumPy was built with baseline"),
        ("raise ImportError('x.so: wrong ELF class: ELFCLASS64')\n", "another processor (ImportError: x.so: wrong ELF"),
        ("raise ImportError('libgomp.so.1: cannot open')\n", "cannot be imported: ImportError: libgomp.so.1"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "cannot be imported: was killed by SIGKILL"),
        ("import sys\nsys.exit(3)\n", "cannot be imported: ended with exit code 3"),
    ],
)
def test_why_a_package_cannot_be_imported(code: str, told: str, path: Path) -> None:
    assert told in import_fault(package(path, code))


def test_a_package_that_works_has_no_fault_and_the_working_directory_is_not_searched(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert import_fault(package(path, "x = 1\n")) == ""
    monkeypatch.delenv("PYTHONPATH")
    monkeypatch.chdir(tmp_path)
    assert "No module named 'fragile'" in import_fault("fragile")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "STEP_S", 0.1)
    monkeypatch.setattr(processor, "IDLE_S", 2.0)


@pytest.mark.usefixtures("impatient")
def test_an_import_that_hangs_is_ended(path: Path) -> None:
    found = import_fault(package(path, "import time\ntime.sleep(600)\n"))
    assert found == "cannot be imported: it has used no processor time for 2 s"


@pytest.mark.usefixtures("impatient")
def test_a_slow_import_is_waited_for_while_it_uses_the_processor_and_what_is_waited_for_is_told_once(
    path: Path,
) -> None:
    """Three seconds of processor time, which a busy machine may take much longer for: more than a hang is given."""
    slow = "import time\nwhile time.process_time() < 3:\n    pass\n"
    told: list[str] = []
    assert import_fault(package(path, slow), told.append) == ""
    assert told == ["importing fragile, which may take minutes on a slow board"]


@pytest.mark.usefixtures("impatient")
def test_an_import_that_never_ends_is_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "LIMIT_S", 1.0)
    found = import_fault(package(path, "while True:\n    pass\n"))
    assert found == "cannot be imported: it is not done after 1 s"


@pytest.mark.parametrize(("code", "text"), [(1, "ValueError: x"), (-9, "numpy"), (0, ""), (-11, "torch")])
def test_other_ends_are_not_the_processors_fault(code: int, text: str) -> None:
    assert processor_fault(code, text) == ""


def test_the_package_is_named_if_it_says_so() -> None:
    assert processor_fault(1, NUMPY).startswith("NumPy was built for another processor")
    assert processor_fault(1, "exec format error").startswith("a package was built")
