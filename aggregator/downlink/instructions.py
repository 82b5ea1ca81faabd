"""Instructions of devices in a round: a job for an invited device, otherwise an offer of its prototype's newest model.

Derived from the journal and the engine's state each time; the publisher sends only the differences.
"""

from __future__ import annotations

from aggregator.downlink.publisher import Instruction
from aggregator.recipes.overrides import read_recipe
from aggregator.rounds.engine import Phase, RoundState
from aggregator.storage.journal import Journal
from aggregator.storage.rows import ModelRow, RoundRow
from wire.messages import Job, Offer

__all__ = ["instructions", "named_artifacts"]


def named_artifacts(state: RoundState, journal: Journal) -> dict[str, int]:
    """The artifacts that a job or an offer names, and their sizes."""
    wanted = {model.digest: model.size for model in journal.current().values()}
    if _in_round(state):
        models = journal.models_of(i.model for i in journal.invitations(state.round))
        wanted |= {digest: model.size for digest, model in models.items()}
    return wanted


def instructions(state: RoundState, journal: Journal, epoch: int) -> dict[str, Instruction]:
    """A job, an offer, or None for a revoked device, by device; those whose prototype has no model are left out."""
    current = journal.current()
    jobs = _jobs(state, journal, epoch)
    wanted: dict[str, Instruction] = {}
    for device, seen in sorted(state.devices.items()):
        if seen.revoked:
            wanted[device] = None
        elif device in jobs:
            wanted[device] = jobs[device]
        elif seen.prototype in current:
            wanted[device] = _offer(device, current[seen.prototype], epoch)
    return wanted


def _in_round(state: RoundState) -> bool:
    return state.phase in (Phase.COLLECTING, Phase.FUSING)


def _offer(device: str, model: ModelRow, epoch: int) -> Offer:
    return Offer(
        round=model.round,
        prototype=model.prototype,
        model=model.digest,
        device=device,
        epoch=epoch,
        number=model.number,
    )


def _jobs(state: RoundState, journal: Journal, epoch: int) -> dict[str, Job]:
    row = journal.last_round()
    if not _in_round(state) or row is None:
        return {}
    side_artifact = _side_artifact(row, journal)
    invitations = journal.invitations(row.number)
    models = journal.models_of(i.model for i in invitations)
    return {
        i.device: Job(
            round=row.number,
            deadline=state.deadline_of(i.device),
            prototype=i.prototype,
            update=row.update,  # type: ignore[arg-type]
            hyper=row.hyper,
            model=i.model,
            bits=row.bits,  # type: ignore[arg-type]
            side_artifact=side_artifact,
            device=i.device,
            epoch=epoch,
            number=models[i.model].number,
        )
        for i in invitations
    }


def _side_artifact(row: RoundRow, journal: Journal) -> str | None:
    """The side artifact of this round, made at the end of an earlier one."""
    name = read_recipe(row.recipe).side_artifact
    made = None if name is None else journal.current().get(name)
    return None if made is None else made.digest
