"""Instructions of devices in a round: a job for an invited device, otherwise an offer of its prototype's newest model.

In asynchronous rounds a device keeps its job until there is something newer: another job, or an offer of a newer model
than that which it has trained from. Several jobs of one round differ in their seeds; agents tell them apart by that.

Derived from the journal and the engine's state each time; the publisher sends only the differences.
"""

from __future__ import annotations

import msgspec

from aggregator.downlink.publisher import Instruction
from aggregator.recipes.overrides import read_recipe
from aggregator.rounds.state import Phase, RoundState
from aggregator.storage.journal import Journal
from aggregator.storage.rows import JobRow, ModelRow, RoundRow
from core.seeds import derive_seed
from wire.messages import MAX_COUNT, Hyper, Job, Offer

__all__ = ["instructions", "named_artifacts", "side_artifact_of"]


def named_artifacts(state: RoundState, journal: Journal) -> dict[str, int]:
    """The artifacts that a job or an offer names, and their sizes."""
    wanted = {model.digest: model.size for model in journal.current().values()}
    if state.rules.buffer:
        jobs = _told(state, journal).values()
        named = {name for job in jobs for name in (job.model, job.side_artifact) if name is not None}
    else:
        named = {i.model for i in journal.invitations(state.round)} if _in_round(state) else set()
    wanted |= {digest: model.size for digest, model in journal.models_of(named).items()}
    return wanted


def instructions(state: RoundState, journal: Journal, epoch: int) -> dict[str, Instruction]:
    """A job, an offer, or None for a revoked device, by device; those whose prototype has no model are left out."""
    current = journal.current()
    jobs = _given_jobs(state, journal, epoch) if state.rules.buffer else _jobs(state, journal, epoch)
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
    side_artifact = side_artifact_of(row, journal)
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


def _told(state: RoundState, journal: Journal) -> dict[str, JobRow]:
    """The jobs that devices are told; those of the last rounds also while a newer model is being fused."""
    return journal.told_jobs(state.round - 1) if state.phase is Phase.FUSING else journal.told_jobs()


def _given_jobs(state: RoundState, journal: Journal, epoch: int) -> dict[str, Job]:
    told = _told(state, journal)
    rounds = {number: journal.round(number) for number in {job.round for job in told.values()}}
    models = journal.models_of(job.model for job in told.values())
    made = {}
    for device, job in told.items():
        row, given = rounds[job.round], state.working.get(device) or state.lapsed.get(device)
        assert row is not None, "a foreign key"
        made[device] = Job(
            round=job.round,
            deadline=given.deadline if given is not None and given.number == job.number else job.deadline,
            prototype=job.prototype,
            update=row.update,  # type: ignore[arg-type]
            hyper=_hyper_of_turn(row.hyper, job.turn),
            model=job.model,
            bits=row.bits,  # type: ignore[arg-type]
            side_artifact=job.side_artifact,
            device=device,
            epoch=epoch,
            number=models[job.model].number,
        )
    return made


def _hyper_of_turn(hyper: Hyper, turn: int) -> Hyper:
    """The first job of a device in a round has the fleet's seed, as in synchronous rounds."""
    seed = derive_seed(hyper.seed, "turn", turn) % MAX_COUNT if turn else hyper.seed
    return msgspec.structs.replace(hyper, seed=seed)


def side_artifact_of(row: RoundRow, journal: Journal) -> str | None:
    """The side artifact of this round, made at the end of an earlier one."""
    name = read_recipe(row.recipe).side_artifact
    made = None if name is None else journal.current().get(name)
    return None if made is None else made.digest
