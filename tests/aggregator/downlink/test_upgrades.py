"""The bundle and its offers at the broker, what devices say of them, and what of it survives a restart."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from aggregator.downlink.rollout import Rollout
from aggregator.downlink.upgrades import ABORT, UPGRADE, Upgrades, device_software, rollout_facts
from aggregator.storage.journal import Journal
from aggregator.storage.rows import Answer, Command
from wire.chunks import decode_chunk
from wire.codec import decode_message
from wire.envelope import open_envelope
from wire.ids import AGGREGATOR, digest_of
from wire.keys import generate_key
from wire.messages import Upgrade, Upgraded, UpgradePhase

pytestmark = pytest.mark.light
KEY = generate_key()
DATA = b"bundle" * 20_000  # two chunks
BUNDLE = digest_of(DATA)
ALL = ("a", "b", "c")


class Fleet:
    """An aggregator's upgrades, with a clock and a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.up = folder, 1000.0, True
        self.retained: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.journal = Journal(folder / "journal.db")
        (folder / "bundles").mkdir(exist_ok=True)
        (folder / "bundles" / BUNDLE).write_bytes(DATA)
        self.begin()

    def begin(self) -> None:
        """The service, started anew."""
        self.upgrades = Upgrades(
            self.publish, key=KEY, fleet="f", journal=self.journal, folder=self.folder, clock=lambda: self.now
        )

    def publish(self, topic: str, payload: bytes, retain: bool) -> bool:
        assert retain
        if self.up:
            self.sent.append(topic.split("/")[-1])
            self.retained[topic] = payload
        return self.up

    def introduce(self, *devices: str, upgrade: str = "1") -> None:
        for device in devices:
            self.upgrades.introduced(device, {"edgestill": "0.2.0", "upgrade": upgrade})
        self.upgrades.keep()

    def command(self, verb: str = UPGRADE, **changes: object) -> Answer:
        facts = {"bundle": BUNDLE, "size": len(DATA), "number": 7, "version": "0.3.0", "devices": ALL, **changes}
        argument = msgspec.json.encode(Rollout(**facts)).decode()  # type: ignore[arg-type]
        number = self.journal.ask(verb, argument)
        self.upgrades.run(Command(id=number, verb=verb, argument=argument), self.now)
        answer = self.journal.answer_of(number)
        assert answer is not None
        self.upgrades.say()
        return answer

    def heard(self, phase: UpgradePhase, *devices: str, number: int = 7, reason: str = "") -> None:
        for device in devices:
            upgraded = Upgraded(number=number, phase=phase, version="0.2.0", reason=reason)
            self.upgrades.heard(device, upgraded)
        self.upgrades.keep()
        self.upgrades.say()

    @property
    def offers(self) -> set[str]:
        """The devices that find an offer at the broker."""
        found = set()
        for topic, payload in self.retained.items():
            device, leaf = topic.split("/")[-2:]
            if leaf == "upgrade" and payload:
                open_ = open_envelope(
                    payload, public_key=KEY.public_key(), fleet="f", sender=AGGREGATOR, kinds=("upgrade",)
                )
                told = decode_message(open_.payload, Upgrade)
                assert (told.device, told.bundle, told.version) == (device, BUNDLE, "0.3.0")
                found.add(device)
        return found

    @property
    def chunks(self) -> bytes:
        """The bundle, as devices can fetch it."""
        found = [payload for topic, payload in sorted(self.retained.items()) if "/model/" in topic and payload]
        return b"".join(bytes(decode_chunk(payload).data) for payload in found)

    @property
    def stages(self) -> dict[str, str]:
        return {row["id"]: row["stage"] for row in rollout_facts(self.journal, self.now)["devices"]}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_the_bundle_is_there_before_the_offers_and_gone_when_all_have_ended(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    assert fleet.command().text == "3 devices"
    assert fleet.sent == ["0", "1", "upgrade", "upgrade", "upgrade"]
    assert (fleet.offers, fleet.chunks) == (set(ALL), DATA)
    fleet.heard("committed", "a", "b")
    assert (fleet.offers, fleet.chunks) == ({"c"}, DATA)
    fleet.heard("back", "c", reason="it ended")
    assert (fleet.offers, fleet.chunks) == (set(), b"")
    assert fleet.stages == {"a": "committed", "b": "committed", "c": "back"}
    count = len(fleet.sent)
    fleet.upgrades.say()
    assert len(fleet.sent) == count


def test_canaries_first_then_the_others_when_the_time_has_come(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command(canary=1, wait_s=60.0)
    assert fleet.offers == {"a"}
    fleet.heard("committed", "a")
    assert (fleet.offers, fleet.stages["b"]) == (set(), "waiting")
    fleet.now += 59
    fleet.upgrades.say()
    assert fleet.offers == set()
    fleet.now += 1
    fleet.upgrades.say()
    assert fleet.offers == {"b", "c"}


def test_a_canary_that_goes_back_stops_it_also_after_a_restart(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command(canary=1)
    fleet.heard("back", "a", reason="it ended")
    facts = rollout_facts(fleet.journal, fleet.now)
    assert facts["stopped"] == "a: went back: it ended"
    assert fleet.stages == {"a": "back", "b": "withdrawn", "c": "withdrawn"}
    fleet.begin()
    fleet.upgrades.say()
    assert fleet.offers == set()


def test_after_a_new_connection_or_a_restart_all_of_it_is_said_again(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command()
    fleet.heard("committed", "a")
    for again in (fleet.upgrades.forget, fleet.begin):
        fleet.retained.clear()
        again()
        fleet.upgrades.say()
        assert (fleet.offers, fleet.chunks) == ({"b", "c"}, DATA)


def test_without_a_connection_it_is_said_later(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.up = False
    fleet.command()
    fleet.up = True
    fleet.upgrades.say()
    assert (fleet.offers, fleet.chunks) == (set(ALL), DATA)


def test_older_agents_and_boards_without_an_installer_are_offered_nothing_and_told_of(fleet: Fleet) -> None:
    fleet.introduce("a")
    fleet.introduce("b", upgrade="not supported here")
    fleet.upgrades.introduced("c", {"edgestill": "0.1.0"})
    fleet.upgrades.keep()
    fleet.command()
    assert fleet.offers == {"a"}
    rows = rollout_facts(fleet.journal, fleet.now)["devices"]
    assert [(row["stage"], row["reason"]) for row in rows] == [
        ("offered", ""),
        ("refused", "not supported here"),
        ("refused", "its edgestill does not install upgrades; push or flash a kit"),
    ]


def test_a_device_that_is_online_and_does_not_answer_has_an_older_access_list_perhaps(fleet: Fleet) -> None:
    fleet.introduce("a", "b")
    fleet.journal.note_device("a", status="online")
    fleet.journal.note_device("b", status="offline")
    fleet.command(devices=("a", "b"))
    assert [row["reason"] for row in rollout_facts(fleet.journal, fleet.now)["devices"]] == ["", ""]
    told = rollout_facts(fleet.journal, fleet.now + 200)["devices"]
    assert [row["stage"] for row in told] == ["offered", "offered"]
    assert "run `edgestill broker install` again" in told[0]["reason"]
    assert told[1]["reason"] == ""
    fleet.heard("fetching", "a")
    assert rollout_facts(fleet.journal, fleet.now + 200)["devices"][0]["reason"] == ""


def test_a_canary_that_takes_no_upgrade_stops_it_and_does_not_let_the_others_wait_for_ever(fleet: Fleet) -> None:
    fleet.introduce("b", "c")
    fleet.introduce("a", upgrade="not supported here")
    refused = fleet.command(canary=1)
    assert refused.failed
    assert refused.text == "a canary takes no upgrade: a: refused: not supported here; choose others"
    assert not fleet.command(canary=1, devices=("b", "a", "c")).failed
    fleet.introduce("b", upgrade="no installer any more")
    assert rollout_facts(fleet.journal, fleet.now)["stopped"] == "b: refused: no installer any more"


def test_a_device_that_is_heard_of_later_is_offered_it_then(fleet: Fleet) -> None:
    fleet.command()
    assert (fleet.offers, fleet.chunks) == (set(), b"")
    fleet.introduce("b")
    fleet.upgrades.say()
    assert (fleet.offers, fleet.chunks) == ({"b"}, DATA)


def test_one_rollout_at_a_time_until_it_is_over_or_ended(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command()
    refused = fleet.command(number=8)
    assert refused.failed
    assert "the upgrade to 0.3.0 is not over: a and 2 more" in refused.text
    assert fleet.command(ABORT).text == "ended by the operator"
    assert (fleet.offers, fleet.chunks) == (set(), b"")
    assert fleet.command(ABORT).failed
    assert not fleet.command(number=8).failed
    assert fleet.offers == set(ALL)


def test_a_command_without_its_bundle_is_refused(fleet: Fleet) -> None:
    assert "is not in" in fleet.command(bundle="0" * 64).text
    assert "is not in" in fleet.command(bundle="../journal.db").text


def test_reports_survive_a_restart_and_a_repetition_keeps_its_time(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command(canary=1, wait_s=60.0)
    fleet.heard("committed", "a")
    fleet.now += 50
    fleet.begin()
    fleet.heard("committed", "a")  # retained at the broker
    fleet.now += 10
    fleet.upgrades.say()
    assert fleet.offers == {"b", "c"}


def test_versions_and_stages_by_device(fleet: Fleet) -> None:
    fleet.introduce("a", "z")
    fleet.command(devices=("a", "b"))
    fleet.heard("trial", "a")
    known = device_software(fleet.journal, fleet.now)
    assert known["a"] == {"version": "0.2.0", "upgrade": "trial", "upgrade_reason": "", "upgrade_to": "0.3.0"}
    assert known["z"] == {"version": "0.2.0"}
    assert known["b"]["version"] == ""


def test_a_report_about_nothing_that_was_offered_changes_nothing(fleet: Fleet) -> None:
    fleet.introduce(*ALL)
    fleet.command(canary=1)
    fleet.heard("back", "a", number=3)
    assert rollout_facts(fleet.journal, fleet.now)["stopped"] == ""
    assert fleet.offers == {"a"}


@pytest.mark.parametrize("point", ["aggregator-rollout-kept", "aggregator-bundle-published"])
def test_killed_in_the_midst_the_next_service_offers_it(tmp_path: Path, point: str) -> None:
    child = os.fork()
    if child == 0:
        os.environ["EDGESTILL_CRASH_AT"] = point
        try:
            first = Fleet(tmp_path)
            first.introduce(*ALL)
            first.command()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    fleet = Fleet(tmp_path)
    fleet.upgrades.say()
    assert (fleet.offers, fleet.chunks) == (set(ALL), DATA)
