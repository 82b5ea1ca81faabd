"""What a round tells its devices."""

import hashlib

from fleet.simulation.round_message import Artifact


def test_an_artifact_is_known_by_the_hash_of_its_bytes_and_hashed_once() -> None:
    artifact = Artifact(b"bytes")
    assert artifact.digest == hashlib.sha256(b"bytes").hexdigest()
    assert Artifact.known("as told", b"bytes").digest == "as told"
    assert Artifact.known("as told", b"bytes").data == artifact.data
