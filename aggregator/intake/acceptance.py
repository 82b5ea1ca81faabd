"""Acceptance of updates: chunks are assembled, updates checked, valid ones stored as blob and journal row, answered.

Updates that arrive together are accepted together: one batch of syncs, one transaction, then their answers. An answer
is sent only when the decision is durable, and repeated whenever the device asks.
"""

from __future__ import annotations

import logging
import mmap
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, cast

from aggregator.intake.checks import Asked, check_update
from aggregator.intake.contained import OURS, Complaints, describe
from aggregator.intake.transfers import Finished, Uploads
from aggregator.rounds.state import Verdict
from aggregator.storage.blobs import Blobs
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Refusal, UpdateRow
from core.crashpoints import reach
from core.errors import DeviceError, TransferError
from wire.chunks import decode_chunk
from wire.ids import transfer_id
from wire.keys import Ed25519PublicKey
from wire.messages import Accepted, Ack, Missing, Rejected
from wire.refusals import RefusalReason, RefusedError
from wire.topics import UpdateChunk

__all__ = ["Desk", "Rounds"]

log = logging.getLogger("edgestill.aggregator")
BATCH = 128  # updates
MAPPED = 4 * 2**20  # bytes from which a part file is mapped and not read
REMEMBERED = 5_000  # answers; older ones are looked up in the journal
AGAIN_S = 1.0  # between two repeated answers about the same decided transfer
STALE_S = 6 * 3600.0


class Rounds(Protocol):
    """The interface to the open round."""

    def judge(self, device: str, number: int) -> Verdict:
        """Whether an update of that round can be accepted."""
        ...

    def asked(self, device: str, number: int) -> Asked | None:
        """The job of the device in that round."""
        ...

    def now(self) -> float:
        """Seconds since 1970."""
        ...

    @property
    def number(self) -> int:
        """The open round, or the last one."""
        ...


class Desk:
    """All updates between their first chunk and their answer."""

    def __init__(
        self,
        *,
        fleet: str,
        uploads: Uploads,
        blobs: Blobs,
        journal: Journal,
        rounds: Rounds,
        answer: Callable[[str, Ack], None],
        garbage: Callable[[str, str], None],
        stored: Callable[[UpdateRow], None],
        may_begin: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`may_begin`: whether a device's budget has room for a transfer."""
        self.fleet, self.uploads, self.blobs, self.journal = fleet, uploads, blobs, journal
        self._rounds, self._answer, self._garbage, self._stored = rounds, answer, garbage, stored
        self._may_begin = may_begin
        self._again: OrderedDict[tuple[str, str], float] = OrderedDict()  # when decisions were last repeated
        self._accepted: dict[str, UpdateRow] = {}  # by device
        self._refused: list[Refusal] = []
        self._decided: OrderedDict[tuple[str, str], Ack] = OrderedDict()
        self._complaints = Complaints()

    @property
    def full(self) -> bool:
        """Whether a batch is ready to be committed."""
        return len(self._accepted) + len(self._refused) >= BATCH

    def chunk(self, topic: UpdateChunk, payload: bytes, key: Ed25519PublicKey) -> None:
        """Handle a chunk."""
        device, transfer = topic.device, topic.transfer
        if (decision := self._decision(device, transfer)) is not None:
            self._decided_already(device, transfer, decision)
            return
        waiting = self._accepted.get(device)
        if waiting is not None and waiting.transfer == transfer:
            return  # answered with the batch
        if not self.uploads.has(device, transfer) and not self._may_begin(device):
            return
        try:
            chunk = decode_chunk(payload)
            if (transfer_id(chunk.content.digest), chunk.n) != (transfer, topic.n):
                raise TransferError(f"chunk {chunk.n} of {chunk.content.digest[:12]}… came under another topic")
        except TransferError as error:
            self._garbage(device, f"chunk: {error}")
            return
        try:
            result = self.uploads.add(device, chunk)
            reach("aggregator-chunk-stored")
            if isinstance(result, Finished):
                self._check(device, transfer, result, key)
            elif result:
                self._answer(device, Missing(transfer=transfer, ranges=result))
        except RefusedError as error:
            self._refuse(device, transfer, error.why, str(error))
        except DeviceError as error:
            self._refuse(device, transfer, RefusalReason.UNSOUND, str(error))
        except TransferError as error:  # another chunk size than before: the next chunk starts over
            self.uploads.drop(device, transfer)
            self._garbage(device, f"chunk: {error}")
        except OURS:
            raise
        except Exception as error:  # a library's exception on unexpected bytes
            log.debug("update from %r", device, exc_info=True, extra={"device": device})
            why = RefusalReason.UNREADABLE
            self._refuse(device, transfer, why, why.say(detail=describe(error)))

    def _decided_already(self, device: str, transfer: str, decision: Ack) -> None:
        """A device that missed the answer, or a replay; a device without an answer asks again after 3 s."""
        key, now = (device, transfer), self._rounds.now()
        if now - self._again.get(key, -AGAIN_S) < AGAIN_S:
            return
        self._again[key] = now
        if len(self._again) > REMEMBERED:
            self._again.popitem(last=False)
        if self._complaints.new(device, f"again {transfer}"):
            log.info(
                "update from %r again, %s before: not counted twice",
                device,
                type(decision).__name__.lower(),
                extra={"device": device},
            )
        self._answer(device, decision)

    def reconnected(self) -> None:
        """Send `Missing` for every unfinished update."""
        self.uploads.expire(STALE_S)
        for device, transfer, ranges in self.uploads.missing():
            self._answer(device, Missing(transfer=transfer, ranges=ranges))

    def flush(self) -> None:
        """Make the current batch durable, then answer, then report the accepted updates (`stored`)."""
        accepted, refused = self._accepted, self._refused
        if not accepted and not refused:
            return
        self._accepted, self._refused = {}, []
        try:
            self._commit(accepted, refused)
        finally:  # if the disk is full, the devices send again
            for row in accepted.values():
                self.uploads.drop(row.device, row.transfer)
        for row in accepted.values():
            self._settle(row.device, Accepted(transfer=row.transfer, round=row.round))
        for refusal in refused:
            self._settle(refusal.device, _rejected(refusal))
        if accepted:
            reach("aggregator-acked")
        for row in accepted.values():
            self._stored(row)

    def _commit(self, accepted: dict[str, UpdateRow], refused: list[Refusal]) -> None:
        self.blobs.adopt()
        if accepted:
            reach("aggregator-blob-written")
        with self.journal.transaction():
            for row in accepted.values():
                self.journal.add_update(row)
            for refusal in refused:
                self.journal.add_refusal(refusal)
        if accepted:
            reach("aggregator-update-journaled")

    def _check(self, device: str, transfer: str, finished: Finished, key: Ed25519PublicKey) -> None:
        if device in self._accepted:
            self.flush()  # so that a second update is judged after the first is counted
        content = finished.content
        checked = check_update(
            _view_of(finished),
            device=device,
            key=key,
            fleet=self.fleet,
            judge=lambda number: self._rounds.judge(device, number),
            asked=lambda number: self._rounds.asked(device, number),
            replayed=lambda nonce: self.journal.has_nonce(device, nonce),
        )
        header = checked.header
        row = UpdateRow(
            device=device,
            round=header.round,
            transfer=transfer,
            digest=content.digest,
            size=content.size,
            prototype=header.prototype,
            kind=header.update,
            num_examples=header.num_examples,
            nonce=checked.nonce,
            received=self._rounds.now(),
            late=checked.late,
            metrics=header.metrics,
            job=checked.job,
        )
        self.blobs.begin(content.digest, finished.held)
        self._accepted[device] = row

    def _refuse(self, device: str, transfer: str, why: RefusalReason, reason: str) -> None:
        self.uploads.drop(device, transfer)
        refusal = Refusal(
            device=device,
            transfer=transfer,
            round=max(1, self._rounds.number),
            reason=reason[:500],
            time=self._rounds.now(),
            why=why,
        )
        self._refused.append(refusal)
        if self._complaints.new(device, reason):
            log.warning("update from %r refused: %s", device, reason, extra={"device": device})
        if why.at_fault:
            self._garbage(device, "")

    def _decision(self, device: str, transfer: str) -> Ack | None:
        key = device, transfer
        if key in self._decided:
            self._decided.move_to_end(key)
            return self._decided[key]
        if self.uploads.has(device, transfer):
            return None
        number = self.journal.accepted_round(device, transfer)
        if number is not None:
            return self._remember(key, Accepted(transfer=transfer, round=number))
        refusal = self.journal.refusal(device, transfer)
        return None if refusal is None else self._remember(key, _rejected(refusal))

    def _settle(self, device: str, ack: Ack) -> None:
        self._answer(device, self._remember((device, ack.transfer), ack))

    def _remember(self, key: tuple[str, str], ack: Ack) -> Ack:
        self._decided[key] = ack
        if len(self._decided) > REMEMBERED:
            self._decided.popitem(last=False)
        return ack


def _rejected(refusal: Refusal) -> Rejected:
    return Rejected(transfer=refusal.transfer, round=refusal.round, reason=refusal.reason, why=refusal.why)


def _view_of(finished: Finished) -> bytes:
    """The sealed update, mapped or in memory; slices of the view are not copied."""
    held, size = finished.held, finished.content.size
    if isinstance(held, bytearray):
        return cast(bytes, memoryview(held))
    if size < MAPPED:
        return held.read_bytes()
    with held.open("rb") as file:
        return cast(bytes, memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)))
