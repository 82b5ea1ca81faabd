"""How far the work of a device is."""

from __future__ import annotations

import pytest

from edge_agent.protocol.download import Download
from edge_agent.protocol.events import Spooled
from edge_agent.protocol.progress import Progress, progress_of
from edge_agent.protocol.upload import Upload
from wire.messages import Hyper, Job, Offer

pytestmark = pytest.mark.light
HYPER = Hyper(batch_size=4, lr=0.1, epochs=1)
JOB = Job(round=7, deadline=1.0, prototype="cnn:w1", update="state", hyper=HYPER, model="ab" * 32)
OFFER = Offer(round=6, prototype="cnn:w1", model="ab" * 32)


def upload(count: int, missing: tuple[tuple[int, int], ...] | None = None) -> Upload:
    made = Upload(Spooled("key", 7, f"t{count}", count))
    if missing is not None:
        made.missing(missing, 0.0)
    return made


def test_without_work_it_is_idle() -> None:
    assert progress_of("idle", None, (), ()) == Progress()


def test_fetching_counts_the_chunks_of_all_artifacts() -> None:
    model, generator, unknown = (Download(digest * 64) for digest in "abc")
    model.resumed(5, ((3, 5),), 0.0, online=False)
    generator.resumed(2, ((0, 2),), 0.0, online=False)
    generator.stored(0, 2, 0.0)
    found = progress_of("fetching", JOB, (model, generator, unknown), (upload(9),))
    assert found == Progress(round=7, stage="fetching", done=4, total=7)


def test_an_offer_is_of_no_round() -> None:
    assert progress_of("training", OFFER, (), ()) == Progress(stage="training")


def test_an_upload_counts_what_the_aggregator_is_known_to_have() -> None:
    assert progress_of("idle", None, (), (upload(9), upload(4, ((1, 2), (3, 4))))) == Progress(
        round=7, stage="uploading", done=2, total=4
    )
