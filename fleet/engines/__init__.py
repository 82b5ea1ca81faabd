"""Where simulated devices train: in this process, in one process per core, or on Ray. The models are the same.

Every engine gives each device the same published bytes and gets the same encoded update back; only where the work is
done differs. Updates are fused in the order of the devices, so who is done first does not show.
"""

from __future__ import annotations

from fleet.engines.base import Engine, Task, make_engine

__all__ = ["Engine", "Task", "make_engine"]
