"""Engines train simulated devices: in this process, in one process per core, or on Ray, with identical results.

Every engine passes each device the same published bytes and returns the same encoded update; only the place of the work
differs. Updates are fused in the order of the devices, so the order in which they finish has no effect.
"""

from __future__ import annotations

from fleet.engines.base import Engine, Task, make_engine

__all__ = ["Engine", "Task", "make_engine"]
