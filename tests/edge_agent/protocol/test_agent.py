"""The rules of docs/protocol.md for an agent, one short test each: events in, actions out."""

import pytest

from edge_agent.protocol.agent import Agent, Phase, instruction_key, seconds_left
from edge_agent.protocol.events import (
    Action,
    Announce,
    Answered,
    CheckModel,
    ChunkStored,
    Connected,
    Disconnected,
    Fetched,
    FetchFailed,
    Follow,
    Instructed,
    Look,
    Report,
    Resumed,
    Say,
    SendChunk,
    Settle,
    Spooled,
    StartTraining,
    StopTraining,
    Subscribe,
    Tick,
    TrainingDone,
    TrainingFailed,
    Unsubscribe,
)
from edge_agent.protocol.replay import Newest
from wire.messages import Accepted, Hyper, Job, Missing, Offer, Rejected

pytestmark = pytest.mark.light

A, B, G = "a" * 64, "b" * 64, "c" * 64
HYPER = Hyper(batch_size=4, lr=0.1, steps=3)


def job(of_round: int = 1, **other: object) -> Job:
    facts = {"round": of_round, "deadline": 1e9, "prototype": "cnn:w1", "update": "state", "hyper": HYPER, "model": A}
    return Job(**(facts | {"device": "pi-1", "epoch": 7, "number": 1} | other))


def offer(of_round: int = 1, model: str = B, **other: object) -> Offer:
    facts = {"round": of_round, "prototype": "cnn:w1", "model": model, "device": "pi-1", "epoch": 7, "number": 1}
    return Offer(**(facts | other))


def spooled(of: Job, count: int = 1, transfer: str = "t") -> Spooled:
    return Spooled(instruction_key(of), of.round, transfer, count)


def agent(**memory: object) -> Agent:
    made = Agent("cnn:w1", device="pi-1", **memory)
    made.handle(Tick(100.0))
    made.handle(Connected())
    return made


def at_training(of: Job | Offer, **memory: object) -> Agent:
    made = agent(**memory)
    made.handle(Instructed(of))
    made.handle(Fetched(of.model))
    assert made.phase is Phase.TRAINING
    return made


def doing(actions: list[Action]) -> list[Action]:
    return [action for action in actions if not isinstance(action, Say | Follow)]


def said(actions: list[Action], level: str) -> str:
    return " ".join(action.text for action in actions if isinstance(action, Say) and action.level == level)


# ---- announcing


def test_every_connection_is_announced() -> None:
    device = Agent("cnn:w1", device="pi-1")
    assert device.handle(Connected()) == [Announce()]
    device.handle(Disconnected())
    assert device.handle(Connected()) == [Announce()]


# ---- instructions


def test_a_job_fetches_its_model_then_trains() -> None:
    device = agent()
    assert doing(device.handle(Instructed(job()))) == [Look(A)]
    assert device.phase is Phase.FETCHING
    assert device.needed == {A}
    started = device.handle(Fetched(A))
    assert started == [StartTraining(instruction_key(job()), job(), 1, None)]
    assert device.phase is Phase.TRAINING


def test_a_job_with_a_generator_waits_for_both() -> None:
    device = agent()
    both = job(side_artifact=G)
    assert doing(device.handle(Instructed(both))) == [Look(A), Look(G)]
    assert device.handle(Fetched(G)) == []
    assert isinstance(device.handle(Fetched(A))[0], StartTraining)


@pytest.mark.parametrize("phase", ["fetching", "training", "waiting"])
def test_the_same_job_again_changes_nothing(phase: str) -> None:
    device = agent()
    device.handle(Instructed(job()))
    if phase != "fetching":
        device.handle(Fetched(A))
    if phase == "waiting":
        device.handle(TrainingFailed(instruction_key(job()), "it crashed", again=True))
    assert device.handle(Instructed(job())) == []
    assert device.phase is Phase(phase)


def test_a_deadline_that_was_put_off_is_the_same_job_and_counts_from_now_on() -> None:
    device = agent()
    device.handle(Instructed(job(deadline=1e9), seconds_left=10.0))
    assert device.handle(Instructed(job(deadline=2e9), seconds_left=50.0)) == []
    device.handle(Tick(120.0))
    (start,) = device.handle(Fetched(A))
    assert start.seconds_left == 30.0


def test_a_job_of_a_later_round_ends_the_training() -> None:
    device = at_training(job(5))
    later = job(6, model=B)
    assert doing(device.handle(Instructed(later))) == [StopTraining(instruction_key(job(5))), Look(B)]
    assert device.handle(TrainingFailed(instruction_key(job(5)), "killed", again=True)) == []
    assert device.phase is Phase.FETCHING


@pytest.mark.parametrize("phase", ["fetching", "training", "waiting"])
def test_an_empty_instruction_ends_the_work(phase: str) -> None:
    device = agent()
    device.handle(Instructed(job()))
    if phase != "fetching":
        device.handle(Fetched(A))
    if phase == "waiting":
        device.handle(TrainingFailed(instruction_key(job()), "it crashed", again=True))
    stopped = doing(device.handle(Instructed(None)))
    assert stopped == ([StopTraining(instruction_key(job()))] if phase == "training" else [])
    assert device.phase is Phase.IDLE
    assert device.handle(Tick(1000.0)) == []


def test_a_job_of_another_prototype_is_refused_once_and_reported() -> None:
    device = agent()
    actions = device.handle(Instructed(job(prototype="mlp:fp32")))
    assert "mlp:fp32" in said(actions, "error")
    assert [type(action) for action in doing(actions)] == [Report]
    assert device.handle(Instructed(job(prototype="mlp:fp32"))) == []
    assert device.phase is Phase.IDLE


def test_a_job_that_was_finished_before_a_restart_is_not_trained_again() -> None:
    device = agent(finished=[instruction_key(job())])
    assert doing(device.handle(Instructed(job()))) == []


def test_a_job_whose_update_is_in_the_outbox_is_not_trained_again() -> None:
    device = agent(outbox=[spooled(job())])
    assert doing(device.handle(Instructed(job()))) == []


def test_the_same_round_with_another_model_is_another_job() -> None:
    device = agent(finished=[instruction_key(job())])
    assert doing(device.handle(Instructed(job(model=B)))) == [Look(B)]


# ---- epochs, and what a broker has recorded


def refusals(actions: list[Action]) -> list[str]:
    """The warnings; each is reported too, and nothing else is done."""
    warned = [action.text for action in actions if isinstance(action, Say)]
    assert all(action.level == "warning" for action in actions if isinstance(action, Say))
    assert [type(action) for action in actions if not isinstance(action, Say)] == [Report] * len(warned)
    return warned


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (job(5, epoch=6, number=9), "its epoch 6 is older than 7"),
        (offer(9, epoch=6, number=9), "its epoch 6 is older than 7"),
        (job(4, number=3), "round 5 was begun before"),
        (job(5, number=2), "its model 2 is older than 3"),
        (offer(5, number=2), "its model 2 is older than 3"),
        (job(6, number=3, device="pi-2"), "for device 'pi-2'"),
        (offer(6, number=4, device="pi-2", epoch=8), "for device 'pi-2'"),
        (job(6, device="", epoch=0, number=0), "update the aggregator"),
        (offer(6, device="", epoch=0, number=0), "update the aggregator"),
        (offer(6, epoch=0), "update the aggregator"),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_older_or_not_for_this_device_is_refused_once_and_the_work_goes_on(
    new: Job | Offer, words: str, restarted: bool
) -> None:
    newest = Newest(epoch=7, round=5, numbers={"cnn:w1": 3})
    device = agent(newest=newest) if restarted else at_training(job(5, number=3))
    phase = device.phase
    actions = device.handle(Instructed(new))
    (told,) = refusals(actions)
    assert words in told
    # of no round: the aggregator is to go on waiting for the work that goes on
    assert [action.round for action in actions if isinstance(action, Report)] == [0]
    for _ in range(3):
        assert device.handle(Instructed(new)) == []
        device.handle(Disconnected())
        device.handle(Connected())
    assert device.phase is phase


def test_what_is_followed_is_kept_before_anything_is_done_about_it() -> None:
    device = agent()
    actions = device.handle(Instructed(job(5, number=3)))
    assert [type(action) for action in actions if not isinstance(action, Say)] == [Follow, Look]
    assert actions[0] == Follow(Newest(epoch=7, round=5, numbers={"cnn:w1": 3}))
    later = device.handle(Instructed(offer(5, B, number=4)))
    assert Follow(Newest(epoch=7, round=5, numbers={"cnn:w1": 4})) in later
    again = device.handle(Instructed(offer(5, B, number=4)))
    assert not [action for action in again if isinstance(action, Follow)]


def test_a_replayed_offer_of_the_model_at_work_does_not_end_the_training() -> None:
    device = at_training(job(5, number=3))
    assert doing(device.handle(Instructed(offer(4, A, number=3)))) == []
    assert device.phase is Phase.TRAINING


def test_a_rollback_is_followed_and_what_it_replaced_is_not_taken_again() -> None:
    device = at_training(offer(2, B, number=3))
    device.handle(TrainingDone(instruction_key(offer(2, B, number=3))))
    assert doing(device.handle(Instructed(offer(2, A, number=4)))) == [Look(A)]
    assert len(refusals(device.handle(Instructed(offer(2, B, number=3))))) == 1
    assert device.phase is Phase.FETCHING


def test_numbers_count_for_each_prototype_alone() -> None:
    device = agent(newest=Newest(epoch=7, round=5, numbers={"mlp:fp32": 90}))
    assert doing(device.handle(Instructed(job(5, number=3)))) == [Look(A)]


@pytest.mark.parametrize("number", [1, 5, 6])
def test_a_newer_epoch_is_followed_at_once_whatever_its_round(number: int) -> None:
    device = at_training(job(5, number=30), outbox=[spooled(job(4))])
    new = job(number, epoch=8, number=2)
    actions = device.handle(Instructed(new))
    assert "1 updates of the older epoch are dropped" in said(actions, "warning")
    kept = Follow(Newest(epoch=8, round=number, numbers={"cnn:w1": 2}), forget=True)
    doings = [action for action in actions if not isinstance(action, Say)]
    assert doings == [StopTraining(instruction_key(job(5))), kept, Look(A)]
    assert device.uploads == {}
    (start,) = device.handle(Fetched(A))
    assert start.key == instruction_key(new)
    assert device.handle(Answered(Accepted(transfer="t", round=4))) == []
    assert refusals(device.handle(Instructed(job(6, number=31))))  # the epoch of before is over


def test_a_child_of_the_older_epoch_that_was_faster_than_the_order_to_stop_is_not_uploaded() -> None:
    device = at_training(job(5))
    device.handle(Instructed(job(5, epoch=8)))
    assert device.handle(TrainingDone(instruction_key(job(5)), spooled(job(5)))) == []
    assert device.uploads == {}
    assert device.phase is Phase.FETCHING


def test_the_same_round_and_model_of_a_new_epoch_are_trained_and_taken_again() -> None:
    finished = [instruction_key(job(2))]
    device = agent(newest=Newest(epoch=7, round=2), finished=finished, taken=B)
    assert doing(device.handle(Instructed(job(2)))) == []
    assert doing(device.handle(Instructed(job(2, epoch=8)))) == [Look(A)]
    taker = agent(newest=Newest(epoch=7, round=2), taken=B)
    assert doing(taker.handle(Instructed(offer(2, B, epoch=8)))) == [Look(B)]


def test_a_new_epoch_is_followed_by_a_job_for_another_prototype_too() -> None:
    device = at_training(job(5))
    actions = device.handle(Instructed(job(1, epoch=8, prototype="mlp:fp32")))
    assert Follow(Newest(epoch=8, round=1), forget=True) in actions
    assert refusals(device.handle(Instructed(job(6))))


def test_an_upgrade_in_place_keeps_the_work_of_the_open_round() -> None:
    """Keys of before epochs existed: these two were computed by that edgestill."""
    one, two = "0000000003-4ca4efefe6a2befc", "0000000012-d7a4616c1e93c38a"
    jobs = [job(3), job(12, update="delta", bits=4, side_artifact=B)]
    device = agent(finished=[one], outbox=[Spooled(two, 12, "t", 1)])
    for of_now in jobs:
        actions = device.handle(Instructed(of_now))
        assert [type(action) for action in actions] == [Follow]
        assert not actions[0].forget
    assert set(device.uploads) == {"t"}
    assert doing(device.handle(Instructed(job(13)))) == [Look(A)]


def test_an_earlier_deadline_is_that_of_an_earlier_copy_of_the_job() -> None:
    device = agent()
    device.handle(Instructed(job(deadline=2e9), seconds_left=50.0))
    device.handle(Instructed(job(deadline=1e9), seconds_left=10.0))
    (start,) = device.handle(Fetched(A))
    assert start.seconds_left == 50.0


def test_a_refused_instruction_does_not_end_the_announcing() -> None:
    device = agent(newest=Newest(epoch=7, round=5))
    device.handle(Instructed(job(4)))
    assert Announce() in device.handle(Tick(131.0))


def test_refusals_of_a_thousand_recorded_messages_are_told_and_no_more() -> None:
    device = agent(newest=Newest(epoch=7))
    told = sum(bool(device.handle(Instructed(job(n + 1, epoch=6)))) for n in range(1100))
    assert told == 1000


# ---- offers


def test_an_offer_is_fetched_and_taken_once() -> None:
    device = agent()
    assert doing(device.handle(Instructed(offer()))) == [Look(B)]
    (start,) = device.handle(Fetched(B))
    assert device.handle(TrainingDone(start.key)) == []
    assert device.phase is Phase.IDLE
    assert device.handle(Instructed(offer())) == []


def test_an_offer_that_was_taken_before_a_restart_is_not_taken_again() -> None:
    assert doing(agent(taken=B).handle(Instructed(offer(model=B)))) == []


def test_a_rollback_is_an_offer_like_any_other() -> None:
    device = at_training(offer(2, B))
    device.handle(TrainingDone(instruction_key(offer(2, B))))
    assert doing(device.handle(Instructed(offer(1, A)))) == [Look(A)]


def test_an_offer_older_than_the_job_at_work_is_late() -> None:
    device = at_training(job(5))
    assert doing(device.handle(Instructed(offer(4)))) == []
    assert device.phase is Phase.TRAINING


def test_an_offer_of_the_round_at_work_means_that_the_round_is_over() -> None:
    device = at_training(job(5))
    assert doing(device.handle(Instructed(offer(5)))) == [StopTraining(instruction_key(job(5))), Look(B)]


# ---- fetching


def fetching() -> Agent:
    device = agent()
    device.handle(Instructed(job()))
    return device


def test_chunk_0_is_asked_for_first_then_20_at_a_time() -> None:
    device = fetching()
    assert device.handle(Resumed(A)) == [Subscribe(A, (0,))]
    got = device.handle(ChunkStored(A, 0, 50))
    assert got == [Unsubscribe(A, (0,)), Subscribe(A, tuple(range(1, 21)))]
    asked: set[int] = set(range(1, 21))
    for n in range(1, 50):
        actions = device.handle(ChunkStored(A, n, 50))
        assert actions[0] == Unsubscribe(A, (n,))
        asked.remove(n)
        asked |= {m for action in actions if isinstance(action, Subscribe) for m in action.numbers}
        assert len(asked) <= 20
    assert actions[-1] == CheckModel(A)


def test_chunks_in_any_order_and_twice_are_counted_once() -> None:
    device = fetching()
    device.handle(Resumed(A))
    device.handle(ChunkStored(A, 0, 3))
    device.handle(ChunkStored(A, 2, 3))
    assert device.handle(ChunkStored(A, 2, 3)) == []
    assert device.handle(ChunkStored(A, 1, 3))[-1] == CheckModel(A)
    assert device.handle(ChunkStored(A, 1, 3)) == []


def test_a_download_goes_on_where_the_disk_left_it() -> None:
    device = fetching()
    assert device.handle(Resumed(A, 5, ((1, 2), (4, 5)))) == [Subscribe(A, (1, 4))]


def test_a_download_that_was_complete_on_disk_is_checked_at_once() -> None:
    assert fetching().handle(Resumed(A, 5, ())) == [CheckModel(A)]


def test_no_progress_means_to_subscribe_again_ever_more_slowly() -> None:
    device = fetching()
    device.handle(Resumed(A))
    times = []
    now = 100.0
    while len(times) < 6:
        now += 1.0
        if device.handle(Tick(now)) == [Subscribe(A, (0,))]:
            times.append(now - 100)
    assert times == [5, 15, 35, 75, 135, 195]


def test_progress_is_patient_again() -> None:
    device = fetching()
    device.handle(Resumed(A))
    device.handle(Tick(105.0))
    device.handle(ChunkStored(A, 0, 3))
    assert device.due == 110.0
    assert device.handle(Tick(110.0)) == [Subscribe(A, (1, 2))]


def test_after_a_reconnection_what_is_missing_is_subscribed_to_anew() -> None:
    device = fetching()
    device.handle(Resumed(A))
    device.handle(ChunkStored(A, 0, 3))
    device.handle(Disconnected())
    assert device.handle(Tick(500.0)) == []  # nobody to ask
    assert device.handle(Connected()) == [Announce(), Subscribe(A, (1, 2))]


def test_a_job_that_comes_before_the_model_look_ends_while_offline_asks_on_connection() -> None:
    device = fetching()
    device.handle(Disconnected())
    assert device.handle(Resumed(A)) == []
    assert device.handle(Connected()) == [Announce(), Subscribe(A, (0,))]


def test_a_damaged_model_is_fetched_again_after_a_while_ever_longer() -> None:
    device = fetching()
    waits = []
    for _ in range(3):
        device.handle(Resumed(A))
        device.handle(ChunkStored(A, 0, 1))
        actions = device.handle(FetchFailed(A, "the whole has another digest"))
        assert "another digest" in said(actions, "warning")
        waits.append(device.due - 100.0)
    assert waits == [5, 10, 20]
    assert device.handle(Tick(120.0)) == [Subscribe(A, (0,))]


def test_a_new_job_drops_the_subscriptions_of_the_old_one() -> None:
    device = fetching()
    device.handle(Resumed(A))
    assert doing(device.handle(Instructed(job(2, model=B)))) == [Unsubscribe(A, (0,)), Look(B)]
    assert device.handle(ChunkStored(A, 0, 1)) == []


# ---- training


def test_time_passes_between_the_job_and_the_training() -> None:
    device = agent()
    device.handle(Instructed(job(), seconds_left=60.0))
    device.handle(Tick(125.0))
    assert device.handle(Fetched(A))[0].seconds_left == 35.0


def test_a_crash_is_tried_again_twice_then_given_up_and_reported() -> None:
    device = at_training(job())
    key = instruction_key(job())
    now = 100.0
    for attempt, wait in ((1, 2.0), (2, 10.0)):
        actions = device.handle(TrainingFailed(key, "killed by SIGSEGV", again=True))
        assert f"attempt {attempt}: killed by SIGSEGV" in said(actions, "warning")
        now += wait
        assert device.due == now
        assert device.handle(Tick(now - 0.1)) == []
        (start,) = device.handle(Tick(now))
        assert start.attempt == attempt + 1
    actions = device.handle(TrainingFailed(key, "killed by SIGSEGV", again=True))
    assert doing(actions) == [Report(1, "killed by SIGSEGV")]
    assert device.handle(Instructed(job())) == []
    assert doing(device.handle(Instructed(job(2, model=B)))) == [Look(B)]


def test_what_another_attempt_cannot_mend_is_given_up_at_once() -> None:
    device = at_training(job())
    actions = device.handle(TrainingFailed(instruction_key(job()), "samples of (2,)", again=False))
    assert doing(actions) == [Report(1, "samples of (2,)")]
    assert device.phase is Phase.IDLE


def test_training_goes_on_without_a_broker_and_the_update_waits() -> None:
    device = at_training(job())
    device.handle(Disconnected())
    assert device.handle(TrainingDone(instruction_key(job()), spooled(job(), 2))) == []
    assert device.handle(Connected()) == [Announce(), SendChunk("t", 0), SendChunk("t", 1)]


def test_an_update_that_was_faster_than_the_order_to_stop_is_uploaded() -> None:
    device = at_training(job(5))
    device.handle(Instructed(job(6, model=B)))
    assert device.handle(TrainingDone(instruction_key(job(5)), spooled(job(5)))) == [SendChunk("t", 0)]
    assert device.phase is Phase.FETCHING


# ---- uploading


def uploading(count: int) -> Agent:
    device = at_training(job())
    device.handle(TrainingDone(instruction_key(job()), spooled(job(), count)))
    return device


def missing(*ranges: tuple[int, int]) -> Answered:
    return Answered(Missing(transfer="t", ranges=ranges))


def sent(actions: list[Action]) -> list[int]:
    return [action.n for action in actions if isinstance(action, SendChunk)]


def test_two_chunks_until_there_is_an_answer_then_at_most_six() -> None:
    device = agent(outbox=[spooled(job(), 20)])
    assert sent(Agent("cnn:w1", device="pi-1", outbox=[spooled(job(), 20)]).handle(Connected())) == [0, 1]
    assert sent(device.handle(missing((2, 20)))) == [2, 3, 4, 5, 6, 7]
    assert sent(device.handle(missing((4, 20)))) == [8, 9]
    assert sent(device.handle(missing((4, 20)))) == []


def test_an_aggregator_that_has_most_of_it_is_sent_the_rest_only() -> None:
    device = agent(outbox=[spooled(job(), 100)])
    assert sent(device.handle(missing((97, 100)))) == [97, 98, 99]


def test_a_chunk_is_lost_if_a_later_one_has_arrived() -> None:
    device = agent(outbox=[spooled(job(), 8)])
    device.handle(missing((2, 8)))  # 2 .. 7 are out
    assert sent(device.handle(missing((2, 3), (5, 8)))) == [2]  # 3, 4 came, so 2 did not; 5, 6, 7 are on their way


def test_no_answer_has_the_lowest_two_sent_again_ever_more_slowly() -> None:
    device = agent(outbox=[spooled(job(), 8)])
    device.handle(Instructed(None))
    device.handle(missing((2, 8)))
    times = []
    now = 100.0
    while len(times) < 7:
        now += 1.0
        if actions := device.handle(Tick(now)):
            assert len(sent(actions)) == 2
            times.append(now - 100)
    assert times == [3, 9, 21, 45, 93, 153, 213]


def test_an_answer_is_patient_again() -> None:
    device = agent(outbox=[spooled(job(), 8)])
    device.handle(Tick(103.0))
    device.handle(Tick(109.0))
    device.handle(missing((2, 8)))
    assert device.due == 112.0


def test_after_a_reconnection_the_aggregator_is_asked_at_once() -> None:
    device = agent(outbox=[spooled(job(), 20)])
    device.handle(missing((2, 20)))
    device.handle(Disconnected())
    assert device.handle(Tick(500.0)) == []
    assert device.handle(missing((5, 20))) == []  # taken from the queue after the connection was gone
    assert device.handle(Connected()) == [Announce(), SendChunk("t", 7), SendChunk("t", 2)]


def test_an_answer_to_what_went_before_the_cut_has_nothing_sent_twice() -> None:
    """2 .. 7 are out when the link breaks; the broker held 2 and 3, and hands them on while 7 and 2 come again."""
    device = agent(outbox=[spooled(job(), 20)])
    device.handle(missing((2, 20)))
    device.handle(Disconnected())
    device.handle(Connected())
    assert device.handle(missing((4, 20))) == []  # of before: 7, which went again, is not in it
    sent = device.handle(missing((4, 7), (8, 20)))  # 7 has come
    assert [action.n for action in sent if isinstance(action, SendChunk)] == [4, 5, 6, 8, 9, 10]


def test_a_list_of_missing_chunks_that_was_cut_says_nothing_of_the_rest() -> None:
    count = 4096
    device = agent(outbox=[spooled(job(), count)])
    device.handle(missing(*((2 * i, 2 * i + 1) for i in range(1024))))
    upload = device.uploads["t"]
    assert not upload._lacks(3)
    assert upload._lacks(2047)
    assert upload._lacks(4095)


def test_missing_chunks_that_do_not_exist_are_no_answer() -> None:
    device = agent(outbox=[spooled(job(), 2)])
    assert device.handle(missing((0, 3))) == []


def test_accepted_settles_and_is_heard_once() -> None:
    device = uploading(1)
    actions = device.handle(Answered(Accepted(transfer="t", round=1)))
    assert doing(actions) == [Settle(spooled(job(), 1), accepted=True)]
    assert device.handle(Answered(Accepted(transfer="t", round=1))) == []
    assert device.handle(missing((0, 1))) == []
    assert device.handle(Tick(1000.0)) == []
    assert device.handle(Instructed(job())) == []


def test_rejected_is_logged_with_its_reason_and_settles() -> None:
    device = uploading(1)
    actions = device.handle(Answered(Rejected(transfer="t", round=1, reason="late")))
    assert "late" in said(actions, "warning")
    assert doing(actions) == [Settle(spooled(job(), 1), accepted=False)]


def test_an_answer_to_another_transfer_is_passed_over() -> None:
    assert uploading(1).handle(Answered(Accepted(transfer="other", round=1))) == []


@pytest.mark.parametrize("event", [Instructed(None), Instructed(offer(1)), Instructed(job(2, model=B))])
def test_a_spooled_update_is_uploaded_whatever_is_said_meanwhile(event: Instructed) -> None:
    device = uploading(3)
    device.handle(event)
    assert sent(device.handle(missing((2, 3)))) == [2]


def test_updates_of_two_rounds_go_up_side_by_side() -> None:
    device = agent(outbox=[spooled(job(1), 1, "one"), spooled(job(2), 1, "two")])
    assert set(device.uploads) == {"one", "two"}
    device.handle(Answered(Accepted(transfer="two", round=2)))
    assert set(device.uploads) == {"one"}


# ---- keys and clocks


def test_the_key_of_a_job_sorts_by_round_and_does_not_depend_on_the_deadline() -> None:
    keys = [instruction_key(job(number)) for number in (2, 10, 9)]
    assert sorted(keys) == [keys[0], keys[2], keys[1]]
    assert instruction_key(job(deadline=5.0)) == instruction_key(job(deadline=6.0))
    assert instruction_key(job(update="onnx")) != instruction_key(job())
    assert instruction_key(job(9, epoch=7)) < instruction_key(job(1, epoch=10))


def test_a_clock_that_is_wrong_by_years_means_no_deadline() -> None:
    assert seconds_left(1_000_060.0, 1_000_000.0) == 60.0
    assert seconds_left(1.8e9, 0.0) is None  # 1970, as boards without a battery say
    assert seconds_left(1.8e9, 1.8e9 + 1) is None  # past: or the clock is ahead


def test_nothing_is_due_when_there_is_nothing_to_do() -> None:
    device = agent()
    device.handle(Instructed(None))
    assert device.due == float("inf")


def test_a_device_that_nobody_instructs_announces_itself_again_ever_less_often() -> None:
    device = agent()
    said = [now for now in range(1, 700) if Announce() in device.handle(Tick(100.0 + now))]
    assert said == [30, 90, 210, 450]
    assert device.due == 100.0 + 930.0
    device.handle(Instructed(None))
    assert device.handle(Tick(5000.0)) == []
