"""The open round as acceptance sees it: whether an update is accepted now, and the job of its device."""

from __future__ import annotations

from collections.abc import Callable

from aggregator.intake.checks import Asked
from aggregator.rounds.buffered import job_of
from aggregator.rounds.engine import judge
from aggregator.rounds.state import RoundState, Verdict
from aggregator.storage.artifacts import published_tensors
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Invitation
from aggregator.tensor_checks import Published
from core.errors import EdgestillError, StorageError
from wire.refusals import RefusalReason

__all__ = ["OpenRound"]


class OpenRound:
    """Judges updates by the open round (`aggregator/intake/acceptance.py`: Rounds); `state` is the engine's.

    Caches the invitations of one round, and of one artifact per prototype the reference for checks.
    """

    def __init__(
        self,
        state: Callable[[], RoundState],
        *,
        journal: Journal,
        blobs: Blobs,
        classes: int,
        clock: Callable[[], float],
    ) -> None:
        self._state, self._journal, self._blobs, self._classes, self._clock = state, journal, blobs, classes, clock
        self._published: dict[str, tuple[str, Published]] = {}  # by prototype: the last artifact
        self._invitations: tuple[int, dict[str, Invitation]] = (0, {})

    def forget(self) -> None:
        """The cached invitations may be out of date."""
        self._invitations = (0, {})

    @property
    def number(self) -> int:
        """Number of the open round, or of the last one."""
        return self._state().round

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def judge(self, device: str, number: int) -> Verdict:
        """Whether an update of that round can be accepted."""
        state = self._state()
        verdict = judge(state, device, number)
        if state.rules.buffer and verdict.refused is not None and self._journal.has_update(device, number):
            return Verdict(RefusalReason.ALREADY_COUNTED)
        if verdict == Verdict(late=True) and self._journal.has_update(device, number):
            return Verdict(RefusalReason.ALREADY_KEPT)
        return verdict

    def asked(self, device: str, number: int) -> Asked | None:
        """The job of the device in that round."""
        if self._state().rules.buffer:
            given = job_of(self._state(), device, number)
            job = None if given is None else self._journal.job(given.number)
            return None if job is None else self._asked(job.prototype, job.model)
        if self._invitations[0] != number:
            self._invitations = number, {i.device: i for i in self._journal.invitations(number)}
        invitation = self._invitations[1].get(device)
        return None if invitation is None else self._asked(invitation.prototype, invitation.model)

    def _asked(self, prototype: str, model: str) -> Asked:
        published = self._published_by(prototype, model)
        return Asked(prototype=prototype, model=model, classes=self._classes, published=published)

    def _published_by(self, prototype: str, digest: str) -> Published:
        known, published = self._published.get(prototype, ("", None))
        if published is None or known != digest:
            try:
                published = published_tensors(self._blobs.read(digest))
            except StorageError:
                raise
            except EdgestillError as error:  # our own blob: no device is to blame
                raise StorageError(f"model {digest[:12]}… is damaged in blobs: {error}") from None
            self._published[prototype] = digest, published
        return published
