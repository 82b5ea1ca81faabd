"""Every script of benchmarks/ runs: with `--quick`, from start to end, and prints its table and its JSON object."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import MOSQUITTO

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in BENCHMARKS.glob("[!_]*.py"))
PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Output:
    """What a script prints."""

    table: str  # a pattern that a line of its table has
    keys: set[str]  # of its JSON object
    rows: frozenset[str] | set[str] = frozenset()  # keys of each of its `rows`


EXPECTED = {
    "agent_memory": Output(r"^mlp:fp32 +light child, batch 32: peak \d+ MB", {"idle_mb", "batch", "training", "light"}),
    "binary_step": Output(
        r"^cnn +w1a1 +\d+\.\d +\d+\.\d\d$",
        {"cnn:fp32", "cnn:w1", "cnn:w1a1", "cnn:brevitas-w1", "cnn:brevitas-w1a1", "limit"},
    ),
    "binary_variants": Output(
        r"^\| digits \| `reactnet` \| \d+\.\d \| \d+\.\d \| [+-]\d+\.\d \|",
        {"rows"},
        {"dataset", "variant", "seed", "cnn:w1", "cnn:w1a1"},
    ),
    "bounded_influence": Output(r"^fedavg, the cap +accuracy +\d+\.\d ± 0\.0 %, backdoor", {"sizes", "cost", "attack"}),
    "clipping": Output(r"^mlp:fp32 stacked +\d+ +\d+ +\d+\.\d\d$", {"mlp:fp32 alone", "mlp:fp32 stacked"}),
    "convolutions": Output(r"^mcmahan_cnn +\d+\.\d\d times as fast", {"32-64 14x14 5x5", "mcmahan_cnn"}),
    "defaults": Output(
        r"^\| `fedavg` \| 1 \| \d+\.\d \|",
        {"rows"},
        {"dataset", "alpha", "devices", "attack", "prototypes", "recipe", "seeds", "deployed", "float", "own"}
        | {"own_worst", "cpu", "times", "lost", "excluded", "attackers", "errors", "below"},
    ),
    "distill": Output(
        r"^each sample once +\d+\.\d +\d+\.\d$",
        {"speedup", "wall_speedup", "max_abs_difference", "adam_difference", "scoring_overhead", "plain_s", "ours_s"}
        | {"forwards_s", "scored_s"},
    ),
    "fedgen_step": Output(
        r"^cnn:fp32 +reference +\d+\.\d\d +\d+\.\d\d$",
        {"cnn:fp32:plain", "cnn:fp32:paper", "cnn:fp32:reference", "limit"},
    ),
    "flood": Output(
        r"^tiny chunks +1( +\d+\.\d\d){4}",
        {"most", "tiny chunks:1", "rows"},
        {"case", "flooders", "calm_s", "flooded_s", "ratio", "worst", "rounds", "service_s", "service_calm_s"}
        | {"broker_s", "messages_s", "mbytes_s", "dropped", "lost"},
    ),
    "light_devices": Output(
        r"^\| `fedavg` \| `cnn:w1` \| never \| +\d+\.\d ± +0\.0 \|",
        {"rows"},
        {"recipe", "prototype", "devices", "fused", "light", "trained"},
    ),
    "many_rounds": Output(
        r"^ +5\.0( +[\d,]+\.\d){8}$",
        {"growth", "rows"},
        {"round", "service_mb", "worker_mb", "agent_mb", "models_kb", "journal_kb", "rest_kb", "agent_kb", "logs_kb"},
    ),
    "matmul_nbits": Output(
        r"^1 x 128 x 64 +\d+\.\d +\d+\.\d +\d+\.\d +\d+\.\d\d$",
        {"rows"},
        {"shape", "float_us", "bits2_us", "bits4_us"},
    ),
    "mqtt_load": Output(
        r"^ +3 +\d+\.\d\d +\d+\.\d",
        {"seconds_3", "rss_mb_3", "ratio_to_raw", "ratio_to_raw_qos0", "rss_growth_mb", "rows"},
        {"devices", "seconds", "rss_mb", "sent_mb", "repeated", "rate_mb_s", "cpu_ms", "raw_mb_s", "raw_least_mb_s"}
        | {"raw_most_mb_s", "raw_qos0_mb_s", "raw_lost", "ratio_to_raw", "ratio_to_raw_qos0"},
    ),
    "round_trip": Output(
        r"^ +2 inline +\d+\.\d\d",
        {"seconds_2", "seconds_2_inline", "agent_idle_mb", "rows", "peers"},
        {"agents", "echo", "seconds", "best", "answered_s", "fused_s", "child_s", "server_mb", "worker_mb"}
        | {"agent_mb", "agent_idle_mb"},
    ),
    "simulate": Output(
        r"^feddf +train \d+\.\d+ .*distill \d+\.\d+$", {"everything_ratio", "everything_s", "everything_split"}
    ),
    "teachers": Output(
        r"^cnn:fp32 +feddf +2 +\d+\.\d\d",
        {"rows"},
        {"prototype", "recipe", "teachers", "cpu_s", "teach_s", "distill_s", "peak_mb"},
    ),
    "update_size": Output(
        r"^cnn:w1 +26,434 +[\d,]+ +[\d,]+ +\d+\.\dx",
        {"cnn:w1", "cnn:predictor", "encode_ms", "decode_ms", "pack_ms", "patch_ms", "rows"},
        {"name", "parameters", "fp32_bytes", "update_bytes", "ratio", "bits_per_parameter"},
    ),
}
BROKER = ("agent_memory", "flood", "many_rounds", "mqtt_load", "round_trip")
#: All but the quickest few: together they would be a tenth of the suite.
SLOW = frozenset(SCRIPTS) - {"clipping", "update_size", "fedgen_step"}


def marked(name: str) -> Any:
    marks = [pytest.mark.broker] * (name in BROKER) + [pytest.mark.slow] * (name in SLOW)
    return pytest.param(name, marks=marks)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def run(name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), *flags]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_every_script_is_run_here() -> None:
    assert set(EXPECTED) == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_says_what_quick_is(name: str) -> None:
    said = ast.get_docstring(ast.parse((BENCHMARKS / f"{name}.py").read_text()))
    assert said is not None
    assert "`--quick`:" in said


@pytest.mark.parametrize("name", [marked(name) for name in SCRIPTS])
def test_a_quick_run_ends_well_with_a_table_and_a_json_object(name: str) -> None:
    if name in BROKER and MOSQUITTO is None:
        pytest.skip("*** NO MOSQUITTO ON THIS MACHINE: THE BENCHMARKS OF WHOLE FLEETS DO NOT RUN ***")
    done = run(name, "--quick", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    *table, last = done.stdout.splitlines()
    expected = EXPECTED[name]
    assert any(re.search(expected.table, line) for line in table), done.stdout
    facts = json.loads(last)
    assert facts.keys() == expected.keys
    assert all(math.isfinite(number) for number in numbers(facts))
    for row in facts.get("rows", []):
        assert row.keys() == expected.rows
        assert not row.get("errors")
    assert bool(facts.get("rows")) is bool(expected.rows)
