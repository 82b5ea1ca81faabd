"""What devices are given to learn from, opened."""

from pathlib import Path

import numpy as np
import pytest

from core.errors import ModelError, SignatureError
from edge_agent.objectives.side_artifact import SideArtifact, open_side_artifact
from tests.edge_agent.generators import sealed_generator, sealed_label_logits, small_latents
from tests.edge_agent.scripted import FLEET, KEY
from wire.keys import generate_key

LOGITS = np.arange(9.0).reshape(3, 3)


def opened(folder: Path, sealed: bytes, **other: object) -> SideArtifact:
    (folder / "artifact").write_bytes(sealed)
    facts = {"key": KEY.public_key(), "fleet": FLEET, "classes": 3, "latent": 8}
    return open_side_artifact(folder / "artifact", **{**facts, **other})  # type: ignore[arg-type]


def test_a_generator_gives_latents(tmp_path: Path) -> None:
    side_artifact = opened(tmp_path, sealed_generator(3, 8))
    assert side_artifact.label_logits is None
    assert side_artifact.latents is not None
    noise, y = np.ones((3, 4), np.float32), np.arange(3)
    np.testing.assert_array_equal(side_artifact.latents.decode(noise, y), small_latents(3, 8).decode(noise, y))


def test_label_logits_are_taken_as_they_are(tmp_path: Path) -> None:
    side_artifact = opened(tmp_path, sealed_label_logits(3, 8, LOGITS))
    assert side_artifact.latents is None
    np.testing.assert_array_equal(side_artifact.label_logits, LOGITS)


@pytest.mark.parametrize(
    ("sealed", "words"),
    [
        (sealed_generator(4, 8), "4 classes and latent 8, the model has 3 and 8"),
        (sealed_generator(3, 7), "latent 7"),
        (sealed_label_logits(3, 8, np.zeros((2, 3))), "without logits of 3 classes"),
        (sealed_label_logits(3, 8, LOGITS, name="oracle:v2"), "oracle:v2 is nothing that this agent can learn from"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, sealed: bytes, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        opened(tmp_path, sealed)


def test_a_generator_that_the_aggregator_did_not_sign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SignatureError):
        opened(tmp_path, sealed_generator(3, 8), key=generate_key().public_key())
