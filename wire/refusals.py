"""Why an update is refused: a code for decisions, and a text for people.

The code is the last field of `Rejected` and is stored in the journal with the text. An unknown code of a newer
edgestill is read as `OTHER`; its text still describes the reason.

    code             the device was at fault   counted as
    late             no                        late
    not-invited      no                        refused
    already-counted  no                        refused
    already-kept     no                        refused
    all others       yes                       refused

A device that is often at fault is muted for a while (`aggregator/intake/access.py`).
"""

from __future__ import annotations

import enum

from core.errors import DeviceError

__all__ = ["READS_CODES", "RefusalReason", "RefusedError"]

#: Entry of `About.versions` by which an agent announces that it reads the code; other agents get only the text.
READS_CODES = ("ack", "2")


class RefusalReason(enum.Enum):
    """A reason, by its code; `text` is a template with `{round}` or `{detail}`."""

    text: str

    NOT_OPENED = "not-opened", "round {round} was not opened"
    LATE = "late", "late: round {round} is closed"
    NOT_INVITED = "not-invited", "not invited to round {round}"
    ALREADY_COUNTED = "already-counted", "already counted in round {round}"
    ALREADY_KEPT = "already-kept", "already kept for round {round}"  # a late one
    REPEATED = "repeated", "a repetition: this nonce was accepted before"
    REVOKED = "revoked", "the device was revoked"
    UNSOUND = "unsound", "{detail}"  # signature, header, tensors or transfer do not match the job
    UNREADABLE = "unreadable", "it cannot be read: {detail}"
    NOT_FUSABLE = "not-fusable", "cannot be fused: {detail}"
    OTHER = "other", "{detail}"

    def __new__(cls, code: str, text: str = "{detail}") -> RefusalReason:
        """The code is the enum value; the text is an attribute."""
        reason = object.__new__(cls)
        reason._value_, reason.text = code, text
        return reason

    @classmethod
    def _missing_(cls, value: object) -> RefusalReason | None:
        return cls.OTHER if isinstance(value, str) else None

    def say(self, *, number: int = 0, detail: str = "") -> str:
        """The text of one refusal.

        >>> RefusalReason.LATE.say(number=4)
        'late: round 4 is closed'
        """
        return self.text.format(round=number, detail=detail)

    @property
    def at_fault(self) -> bool:
        """Whether the device is at fault."""
        return self not in _BLAMELESS


_BLAMELESS = (
    RefusalReason.LATE,
    RefusalReason.NOT_INVITED,
    RefusalReason.ALREADY_COUNTED,
    RefusalReason.ALREADY_KEPT,
)


class RefusedError(DeviceError):
    """An update is refused with a code; any other `DeviceError` is `UNSOUND`."""

    def __init__(self, why: RefusalReason, *, number: int = 0, detail: str = "") -> None:
        super().__init__(why.say(number=number, detail=detail))
        self.why = why
