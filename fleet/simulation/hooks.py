"""What an experiment changes of a simulated fleet: optional callables, each called in one place of the product.

    Simulation(config, dataset, hooks=Hooks(loss=softmax_first))

A hook is for what a paper's authors do otherwise and no user would want to configure; everything else is an option of
`SimulationConfig`. Workers of the engine `processes` are forked and have the hooks too, so a hook must give the same
answer in each of them: a function of device, round and seed. Ray's actors have none: `Simulation` refuses hooks there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from aggregator.evaluate import Counted
    from aggregator.fusion.types import MakeTeacher
    from edge_agent.training.params import LocalTraining
    from edge_agent.training.trainer import LossFunction

__all__ = ["NO_HOOKS", "Hooks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Every field may be None: then the fleet does as the configuration says."""

    #: (how the configuration has devices train in a round, round) -> how they do. Called by `SimulatedDevice.how`.
    training: Callable[[LocalTraining, int], LocalTraining] | None = None
    #: (logits, labels) -> mean loss of a mini-batch, in place of cross-entropy. Called by `SimulatedDevice._trained`.
    loss: LossFunction | None = None
    #: (prototype, update, round) -> a teacher, in place of the frozen model. Called by `fuse_round`, in its threads.
    teacher: MakeTeacher | None = None
    #: (model, x, y) -> what `aggregator.evaluate.count` gives, for the scores of a round. Called by `Bench.score`.
    count: Callable[[nn.Module, Tensor, Tensor], list[Counted]] | None = None

    @property
    def change_training(self) -> bool:
        """Whether a device trains otherwise than one of a stack does (`fleet/fast/grouping.py`)."""
        return self.loss is not None


NO_HOOKS = Hooks()
