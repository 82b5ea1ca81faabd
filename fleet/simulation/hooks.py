"""Hooks by which an experiment changes a simulated fleet: optional callables, each called in one place of the product.

    Simulation(config, dataset, hooks=Hooks(label_counts=of_the_round))

A hook reproduces a choice of a paper's authors that no user would want to configure; everything else is a field of
`SimulationConfig`. Workers of the engine `processes` are forked and inherit the hooks, so a hook must return the same
value in each of them: it is a function of device, round and seed. Ray's actors do not inherit them, and `Simulation`
rejects hooks that workers call with that engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from aggregator.evaluate import Counted
    from aggregator.fusion.generator.side_artifact import SideArtifact
    from aggregator.fusion.types import MakeTeacher
    from edge_agent.training.params import LocalTraining
    from edge_agent.training.trainer import LossFunction
    from fleet.data import Dataset
    from fleet.simulation.device import SimulatedDevice
    from fleet.simulation.received import Sent
    from fleet.simulation.simulation import Simulation

__all__ = ["NO_HOOKS", "Hooks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Every field may be None; the configuration then applies unchanged."""

    #: Rows of the training set by device, in place of `config.partition`. Called by `device.make_devices`.
    partition: Callable[[Dataset], Sequence[NDArray[np.int64]]] | None = None
    #: (device, round) -> learning rate, in place of the configured one. Called by `SimulatedDevice.training_of`.
    lr: Callable[[SimulatedDevice, int], float] | None = None
    #: (hyper-parameters of a round, round) -> those that all devices use. Called by `SimulatedDevice.training_of`.
    training: Callable[[LocalTraining, int], LocalTraining] | None = None
    #: (logits, labels) -> mean loss of a mini-batch, in place of cross-entropy. Called by `SimulatedDevice._trained`.
    loss: LossFunction | None = None
    #: (device, round) -> the round's mini-batches as indices of the device's samples, in place of reshuffled epochs.
    #: Called by `SimulatedDevice._trained`.
    batches: Callable[[SimulatedDevice, int], Iterable[Tensor]] | None = None
    #: (device, round) -> label counts of its update; the number of examples stays. Called by `SimulatedDevice._header`.
    label_counts: Callable[[SimulatedDevice, int], Sequence[int]] | None = None
    #: Tensor name -> whether the device starts from its own tensor instead of the published one; it is still sent and
    #: fused. Called by `SimulatedDevice.start` and `SimulatedDevice.answer`.
    stays: Callable[[str], bool] | None = None
    #: (simulation, round, the devices' updates), after training and before fusion. Called by `Simulation.run_round`.
    received: Callable[[Simulation, int, Sequence[Sent]], None] | None = None
    #: The side artifact of a round -> the one that is published. Called by `Simulation.run_round`.
    side_artifact: Callable[[SideArtifact], SideArtifact] | None = None
    #: (prototype, update, round) -> a teacher, in place of the frozen model. Called by `fuse_round`.
    teacher: MakeTeacher | None = None
    #: (model, x, y) -> the same result as `aggregator.evaluate.count`, to score a round. Called by `Bench.score`.
    count: Callable[[nn.Module, Tensor, Tensor], list[Counted]] | None = None

    @property
    def in_workers(self) -> bool:
        """Whether workers call a hook; the others are called by the simulation alone."""
        at_home = ("received", "side_artifact", "teacher")
        return any(getattr(self, field.name) is not None for field in fields(self) if field.name not in at_home)

    @property
    def change_training(self) -> bool:
        """Whether a hook changes local training; such devices are not stacked with others."""
        return any(hook is not None for hook in (self.lr, self.loss, self.batches, self.stays))


NO_HOOKS = Hooks()
