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
    "firmware_configs",
    "fleet",
    "edgestill",
]
FORBIDDEN = {("aggregator", "edge_agent"), ("edge_agent", "aggregator")}
#: Inside a package, a room imports only rooms before it; modules on the first floor, after the rooms, may use them all.
ROOMS = {
    "edge_agent": [
        "config",
        "host",
        "protocol",
        "state",
        "samples",
        "training",
        "objectives",
        "light",
        "predict",
        "child",
        "remote_settings",
    ],
    "aggregator": [
        "tensor_checks",
        "evaluate",
        "recipes",
        "tracking",
        "config",
        "storage",
        "rounds",
        "fusion",
        "fusion/numerics",
        "fusion/screens",
        "fusion/teachers",
        "fusion/generator",
        "fusion/averages",
        "fusion/weights",
        "fusion/students",
        "fusion/pipeline",
        "intake",
        "downlink",
        "worker",
        "monitoring",
    ],
    "firmware_configs": [
        "services",
        "on_board",
        "boards",
        "secrets",
        "identity",
        "kits",
        "broker",
        "flash/cards",
        "flash",
        "manifest",
        "first_graph",
        "provision",
        "approve",
        "doctor",
        "wheel_server",
        "use_cases",
    ],
}
TORCH_FREE = [
    "core.*",
    "core.processes.*",
    "wire.*",
    "transport.*",
    "quant.precision",
    "quant.delta",
    "quant.onnx.weights",
    "models.card",
    "models.spec",
    "models.registry",
    "models.roles",
    "models.text.tokenizer",
    "models.sources.*",
    "edge_agent.samples.*",
    "edge_agent.training.params",
    "edge_agent.service",
    "edge_agent.enrolment",
    "edge_agent.predict.*",
    "edgestill",
    "edgestill.device",
    "edgestill.hidden",
    "aggregator.service",
    "fleet.simulation.config",
    "fleet.simulation.run",
    "fleet.simulation.settings.*",
    "firmware_configs.provision",
    "firmware_configs.approve",
    "firmware_configs.doctor.*",
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


def room_of(module: str) -> str:
    """The room of a dotted module: its folder inside the package, or the module itself on the first floor."""
    package, *inside = module.split(".")
    folder = inside if (ROOT / package).joinpath(*inside).is_dir() else inside[:-1]
    while "/".join(folder) not in ROOMS[package] and len(folder) > 1:
        folder = folder[:-1]  # a room inside a room
    return "/".join(folder) or inside[-1]


def imported_modules(path: Path, package: str) -> set[str]:
    """Modules of its own package that a module imports to run; those for annotations alone do not count."""
    tree = ast.parse(path.read_text())
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name for name in inside if (ROOT / f"{name.replace('.', '/')}.py").exists()} or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith(f"{package}.")}


@pytest.mark.parametrize("package", ROOMS)
def test_a_room_imports_only_rooms_before_it(package: str) -> None:
    order = ROOMS[package]
    for path in (ROOT / package).rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module == package:
            continue
        mine = room_of(module)
        if mine not in order:
            assert path.parent == ROOT / package, f"{path.relative_to(ROOT)}: its room is in no order"
            continue
        allowed = {*order[: order.index(mine) + 1]}
        others = {room_of(name) for name in imported_modules(path, package)}
        assert others <= allowed, f"{path.relative_to(ROOT)} imports {sorted(others - allowed)}"


def test_every_module_says_what_it_is_for() -> None:
    for package in ORDER:
        for module in (ROOT / package).rglob("*.py"):
            assert ast.get_docstring(ast.parse(module.read_text())), f"{module.relative_to(ROOT)} has no docstring"


def modules_of(pattern: str) -> list[str]:
    if not pattern.endswith(".*"):
        return [pattern]
    package = pattern[:-2]
    return [f"{package}.{p.stem}" for p in ROOT.joinpath(*package.split(".")).glob("*.py") if p.stem != "__init__"]


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
