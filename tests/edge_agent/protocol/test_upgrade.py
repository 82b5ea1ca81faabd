"""An upgrade from the offer to its end, and everything that may arrive twice, late, or never."""

from collections.abc import Sequence

import pytest

from edge_agent.protocol.events import (
    CheckModel,
    ChunkStored,
    Connected,
    Disconnected,
    Fetched,
    FetchFailed,
    Look,
    Resumed,
    Say,
    Subscribe,
    Tick,
    Unsubscribe,
)
from edge_agent.protocol.upgrade import (
    Action,
    Discard,
    HandOver,
    HeardSelf,
    Installer,
    Offered,
    SayWell,
    Tell,
    UpgradeAgent,
)
from wire.messages import Upgrade, Upgraded

pytestmark = pytest.mark.light
BUNDLE, OTHER = "b" * 64, "c" * 64


def offer(number: int = 7, bundle: str = BUNDLE, device: str = "pi-01") -> Offered:
    return Offered(Upgrade(device=device, number=number, bundle=bundle, version="0.3.0"))


def told(actions: Sequence[Action]) -> list[Upgraded]:
    return [action.upgraded for action in actions if isinstance(action, Tell)]


def phases(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [(upgraded.phase, upgraded.reason) for upgraded in told(actions)]


def online(**facts: object) -> UpgradeAgent:
    agent = UpgradeAgent("pi-01", "0.2.0", **facts)  # type: ignore[arg-type]
    agent.handle(Connected())
    return agent


def fetched(agent: UpgradeAgent) -> list[Action]:
    """The bundle arrives, in two chunks."""
    actions = [*agent.handle(offer()), *agent.handle(Resumed(BUNDLE))]
    actions += [*agent.handle(ChunkStored(BUNDLE, 0, 2)), *agent.handle(ChunkStored(BUNDLE, 1, 2))]
    return [*actions, *agent.handle(Fetched(BUNDLE))]


def test_a_bundle_is_fetched_and_handed_over_and_the_fleet_hears_how_far_it_is() -> None:
    actions = fetched(online())
    assert [a for a in actions if not isinstance(a, Say | Tell)] == [
        Look(BUNDLE),
        Subscribe(BUNDLE, (0,)),
        Unsubscribe(BUNDLE, (0,)),
        Subscribe(BUNDLE, (1,)),
        Unsubscribe(BUNDLE, (1,)),
        CheckModel(BUNDLE),
        HandOver(BUNDLE),
    ]
    assert [(u.phase, u.progress) for u in told(actions)] == [
        ("fetching", 0.0),
        ("fetching", 0.5),
        ("fetching", 1.0),
        ("installing", 0.0),
    ]
    assert {u.version for u in told(actions)} == {"0.2.0"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Installer(BUNDLE, 7, "installing", waiting=True), []),  # said before
        (Installer(BUNDLE, 7, "trial"), [("trial", "")]),
        (Installer(BUNDLE, 7, "returning", "it ended"), [("trial", "")]),
        (Installer(BUNDLE, 7, "committed"), [("committed", "")]),
        (Installer(BUNDLE, 7, "back", "it ended"), [("back", "it ended")]),
        (Installer(BUNDLE, 6, "refused", "no room"), [("refused", "no room")]),
    ],
)
def test_what_the_installer_says_is_passed_on_once(status: Installer, expected: list[tuple[str, str]]) -> None:
    agent = online()
    fetched(agent)
    assert phases(agent.handle(status)) == expected
    assert phases(agent.handle(status)) == []
    agent.handle(Disconnected())
    assert phases(agent.handle(Connected())) == (expected or [("installing", "")])  # a broker may forget


def test_an_offer_whose_end_is_known_is_answered_and_nothing_is_fetched() -> None:
    agent = online()
    agent.handle(Installer(BUNDLE, 7, "back", "it ended"))
    actions = agent.handle(offer())
    assert (phases(actions), [a for a in actions if not isinstance(a, Tell)]) == ([("back", "it ended")], [])


def test_an_older_bundle_is_refused_whoever_replays_it() -> None:
    agent = online()
    agent.handle(Installer(OTHER, 8, "committed"))
    assert phases(agent.handle(offer(7))) == [("refused", "it is older than the last bundle that this board accepted")]
    agent = online()
    agent.handle(offer(9, OTHER))
    assert list(agent.handle(offer(7))) == []


def test_an_offer_for_another_device_is_refused_silently_to_the_fleet() -> None:
    (said,) = online().handle(offer(device="pi-02"))
    assert isinstance(said, Say)
    assert "'pi-02'" in said.text


def test_without_an_installer_it_says_why_and_fetches_nothing() -> None:
    actions = online(refusal="not supported here").handle(offer())
    assert (phases(actions), len(actions)) == ([("refused", "not supported here")], 1)


def test_a_newer_offer_takes_the_place_of_the_one_that_is_fetched() -> None:
    agent = online()
    agent.handle(offer())
    agent.handle(Resumed(BUNDLE))
    actions = agent.handle(offer(8, OTHER))
    assert Unsubscribe(BUNDLE, (0,)) in actions
    assert Look(OTHER) in actions
    assert agent.needed == {OTHER}
    assert list(agent.handle(ChunkStored(BUNDLE, 0, 2))) == []


def test_an_offer_that_is_taken_back_ends_the_transfer_but_not_the_installer() -> None:
    agent = online()
    agent.handle(offer())
    agent.handle(Resumed(BUNDLE))
    assert list(agent.handle(Offered(None))) == [Unsubscribe(BUNDLE, (0,)), Discard()]
    assert agent.needed == set()
    agent = online()
    fetched(agent)
    assert list(agent.handle(Offered(None))) == [Discard()]
    agent.handle(offer())  # offered again: the installer has it still
    assert agent.needed == set()


def test_a_repeated_offer_changes_nothing() -> None:
    agent = online()
    agent.handle(offer())
    assert list(agent.handle(offer())) == []


def test_a_transfer_goes_on_with_the_next_connection_and_after_a_pause() -> None:
    agent = online()
    agent.handle(Tick(100.0))
    agent.handle(offer())
    agent.handle(Resumed(BUNDLE, 4, ((1, 4),)))
    agent.handle(Disconnected())
    assert agent.due == float("inf")
    actions = agent.handle(Connected())
    assert Subscribe(BUNDLE, (1, 2, 3)) in actions
    assert agent.due == 105.0
    assert list(agent.handle(Tick(105.0))) == [Subscribe(BUNDLE, (1, 2, 3))]


def test_a_damaged_bundle_is_fetched_again_later() -> None:
    agent = online()
    agent.handle(Tick(100.0))
    agent.handle(offer())
    agent.handle(Resumed(BUNDLE, 1, ()))
    (said,) = agent.handle(FetchFailed(BUNDLE, "another digest"))
    assert isinstance(said, Say)
    assert list(agent.handle(Tick(105.0))) == [Subscribe(BUNDLE, (0,))]


def test_on_trial_it_says_that_it_is_well_once_it_has_heard_itself() -> None:
    agent = online()
    trial = Installer(BUNDLE, 7, "trial", mine=True)
    assert [a for a in agent.handle(trial) if isinstance(a, SayWell)] == []
    assert list(agent.handle(HeardSelf()))[-1] == SayWell(7)
    assert list(agent.handle(HeardSelf())) == []
    assert [a for a in agent.handle(trial) if isinstance(a, SayWell)] == []


def test_the_former_agent_never_says_that_the_new_one_is_well() -> None:
    agent = online()
    agent.handle(HeardSelf())
    assert [a for a in agent.handle(Installer(BUNDLE, 7, "trial")) if isinstance(a, SayWell)] == []


def test_a_request_that_waits_since_before_the_start_is_not_fetched_again() -> None:
    actions = online(handed_over=True).handle(offer())
    assert (phases(actions), len(actions)) == ([("installing", "")], 1)


def test_a_request_that_was_refused_makes_room_for_the_next_bundle() -> None:
    agent = online(handed_over=True)
    agent.handle(Installer(OTHER, 6, "installing", waiting=True))
    agent.handle(offer())
    assert agent.needed == set()
    assert Look(BUNDLE) in agent.handle(Installer(OTHER, 6, "refused", "damaged"))
