"""Freed memory is used again."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
from fleet.engines.heap import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    print("no glibc"); sys.exit()
for n in range(20):  # a step: 32 MB in blocks of several sizes, touched, then all freed
    if n == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"1" * (size * 2**20) for size in (4, 8, 12, 8)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    found = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True).stdout
    if found.startswith("no glibc"):
        pytest.skip("not a system with glibc")
    return int(found)


@pytest.mark.slow
def test_memory_that_was_freed_costs_no_page_faults_when_it_is_needed_again() -> None:
    assert faults("as it is") > 10_000  # of 10 x 8,192
    assert faults("kept") < 1_000
