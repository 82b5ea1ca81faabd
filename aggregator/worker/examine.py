"""Finds the updates of a round that cannot be fused: each is fused alone, in a process that may crash.

An accepted update should never crash the worker. If one does anyway, the round must not be lost, and no honest device
may be blamed for a full disk or a missing file. So the published model itself is fused first as a control, as if a
device had sent it back unchanged: if that fails, the updates are not the cause. An update is a culprit if it fails
twice, and the control still passes afterwards.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from aggregator.recipes.catalogue import Recipe
from core.errors import EdgestillError
from core.processes.process import end_fork
from core.settings import replace
from quant.pack import pack_state
from wire.tensors import encode

if TYPE_CHECKING:
    from aggregator.fusion.types import Memory
    from aggregator.worker.fuse_round import Fuser, StoredGroup

__all__ = ["examine", "outcome_of"]

STEPS = 5  # of distillation and of the generator: a bad update fails at once
REASON = 300  # characters


def examine(
    fuser: Fuser, recipe: Recipe, round_number: int, groups: Sequence[StoredGroup], memory: Memory
) -> dict[str, str]:
    """The devices of the round whose updates cannot be fused, and why."""
    cheap = _cheap(recipe)

    def fails(groups: Sequence[StoredGroup]) -> str:
        return outcome_of(lambda: _fuse(fuser, cheap, round_number, groups, memory))

    def sound(name: str) -> bool:
        """Whether the published model can be fused; logits by label have no such model."""
        return recipe.label_logits is not None or not fails(controls[name])

    controls = {str(group.spec): [dataclasses.replace(group, rows=(), late=(), unchanged=True)] for group in groups}
    broken = {name for name in controls if not sound(name)}
    culprits: dict[str, str] = {}
    for name, device, alone in _each_alone(groups):
        if name not in broken and fails([alone]) and (reason := fails([alone])) and sound(name):
            culprits[device] = reason
    return culprits


def _each_alone(groups: Sequence[StoredGroup]) -> Iterator[tuple[str, str, StoredGroup]]:
    """Prototype, device, and the group with only the update of this device."""
    for group in groups:
        for row in group.rows:
            yield str(group.spec), row.device, dataclasses.replace(group, rows=(row,), late=())
        for row, model in group.late:
            yield str(group.spec), row.device, dataclasses.replace(group, rows=(), late=((row, model),))


def _cheap(recipe: Recipe) -> Recipe:
    """The same parts, with few steps."""
    distill = replace(recipe.distill, steps=min(recipe.distill.steps or STEPS, STEPS))
    generation = recipe.generation and replace(recipe.generation, steps=min(recipe.generation.steps, STEPS))
    return replace(recipe, distill=distill, generation=generation, refine=min(recipe.refine, STEPS))


def _fuse(fuser: Fuser, recipe: Recipe, round_number: int, groups: Sequence[StoredGroup], memory: Memory) -> None:
    fused = fuser.compute(recipe, round_number, groups, memory)
    for state in fused.states.values():
        encode(pack_state(dict(state), floats="fp32"))  # refuses non-finite values


def outcome_of(work: Callable[[], None]) -> str:
    """Why `work` fails, or an empty string; it runs in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _run(work, write)
    os.close(write)
    with open(read, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    code = end_fork(child)
    if code == 0:
        return ""
    return reason or (f"it ended the worker process by signal {-code}" if code < 0 else f"exit code {code}")


def _run(work: Callable[[], None], write: int) -> None:
    """In the child, which never returns."""
    code = 1
    try:
        work()
        code = 0
    except EdgestillError as error:
        os.write(write, str(error)[:REASON].encode())
    except BaseException as error:
        traceback.print_exc(file=sys.stderr)
        os.write(write, f"{type(error).__name__}: {error}"[:REASON].encode())
    finally:
        os._exit(code)
