"""What boards report of their work, and the end of their logs: bounds; the order of fields is in test_messages.py."""

import pytest

from core.errors import EnvelopeError
from wire.board_reports import LOG_LINES, LONGEST_LINE, Ask, LogTail, Message, Telemetry
from wire.codec import decode_message, encode_message

pytestmark = pytest.mark.light


@pytest.mark.parametrize(
    "message",
    [
        Telemetry(),
        Telemetry(round=3, stage="training", done=30, total=120, throttled=True, undervoltage=False, battery=0.5),
        Ask(device="pi-07", number=1_760_000_000_123, lines=LOG_LINES),
        LogTail(number=1, lines=("x" * LONGEST_LINE,) * 200),
        LogTail(number=1, withheld=True),
    ],
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode_message(encode_message(message), type(message)) == message


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Telemetry(battery=1.1), "Telemetry.battery"),
        (Telemetry(temperature_c=1e308), "Telemetry.temperature_c"),
        (Telemetry(temperature_c=-300.0), "Telemetry.temperature_c"),
        (Telemetry(stage="asleep"), "Telemetry.stage"),  # type: ignore[arg-type]
        (Ask(device="pi-07", number=0), "Ask.number"),
        (Ask(device="pi-07", number=1, lines=LOG_LINES + 1), "Ask.lines"),
        (LogTail(number=1, lines=("x" * (LONGEST_LINE + 1),)), "LogTail.lines"),
        (LogTail(number=1, lines=("x",) * (LOG_LINES + 1)), "LogTail.lines"),
    ],
)
def test_a_message_out_of_bounds_is_refused_by_its_field(message: Message, field: str) -> None:
    with pytest.raises(EnvelopeError, match=f"^{field}"):
        encode_message(message)


def test_a_report_takes_few_bytes() -> None:
    """Every ten seconds of work: 40 KB an hour with its envelope."""
    assert len(encode_message(Telemetry(round=3, stage="training", done=30, total=120, temperature_c=61.5))) < 60
