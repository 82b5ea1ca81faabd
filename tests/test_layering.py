"""Imports point upwards only, and what must stay light imports no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.light
ROOT = Path(__file__).resolve().parent.parent
ORDER = [
    "core",
    "wire",
    "transport",
    "quant",
    "models",
    "edge_agent",
    "aggregator",
    "fleet",
    "firmware_configs",
    "edgestill",
]
FORBIDDEN = {("aggregator", "edge_agent"), ("edge_agent", "aggregator")}
TORCH_FREE = [
    "core.*",
    "wire.*",
    "transport.*",
    "quant.precision",
    "quant.delta",
    "quant.onnx.weights",
    "models.spec",
    "models.registry",
    "models.roles",
    "models.tokenizer",
    "edge_agent.training.params",
    "edge_agent.service",
    "edge_agent.enrolment",
    "edge_agent.inference",
    "aggregator.service",
    "fleet.simulation.config",
    "firmware_configs.provision",
    "firmware_configs.approve",
    "firmware_configs.doctor",
    "edgestill.cli.main",
]


def imported_packages(module: Path) -> set[str]:
    """Our own packages that `module` imports anywhere, functions included."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            found.add((node.module or "").split(".")[0])
    return found & set(ORDER)


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_what_is_above_it(package: str) -> None:
    allowed = set(ORDER[: ORDER.index(package) + 1]) - {b for a, b in FORBIDDEN if a == package}
    modules = list((ROOT / package).rglob("*.py"))
    assert modules
    for module in modules:
        assert imported_packages(module) <= allowed, f"{module.relative_to(ROOT)} imports downwards"


def test_every_module_says_what_it_is_for() -> None:
    for package in ORDER:
        for module in (ROOT / package).rglob("*.py"):
            assert ast.get_docstring(ast.parse(module.read_text())), f"{module.relative_to(ROOT)} has no docstring"


def modules_of(pattern: str) -> list[str]:
    if not pattern.endswith(".*"):
        return [pattern]
    package = pattern[:-2]
    return [f"{package}.{p.stem}" for p in (ROOT / package).glob("*.py") if p.stem != "__init__"]


@pytest.mark.parametrize("pattern", TORCH_FREE)
def test_what_runs_on_small_boards_imports_no_torch(pattern: str) -> None:
    names = modules_of(pattern)
    heavy = ("torch", "brevitas", "matplotlib", "sklearn", "scipy")
    code = f"import sys; import {', '.join(names)}; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_wire_imports_no_mqtt_client_and_nothing_slow() -> None:
    code = (
        "import time, sys; t = time.process_time(); "
        f"import {', '.join(modules_of('wire.*'))}; "
        "print('paho' in sys.modules, time.process_time() - t)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    paho, seconds = done.stdout.split()
    assert paho == "False"
    assert float(seconds) < 0.5  # CPU seconds; 0.1 measured
