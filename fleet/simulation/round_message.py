"""The message that opens a round for simulated devices: models, side artifact, options. The same for all engines.

An `Artifact` is identified by the SHA-256 of its bytes, as over MQTT: it is sent only once to each worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from edge_agent.objectives.side_artifact import SideArtifact, read_side_artifact
from wire.messages import ModelHeader
from wire.tensors import Tensor, decode

__all__ = ["Artifact", "News", "PublishedSideArtifact"]


@dataclass(frozen=True)
class Artifact:
    """Published bytes: encoded tensors."""

    data: bytes

    @classmethod
    def known(cls, digest: str, data: bytes) -> Artifact:
        """An artifact whose digest another process has computed."""
        made = cls(data)
        made.__dict__["digest"] = digest
        return made

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """The decoded tensors, cached and read-only."""
        return decode(self.data, intact=True)


@dataclass(frozen=True)
class PublishedSideArtifact:
    """The published side artifact: FedGen's generator or the fleet's logits by label."""

    header: ModelHeader
    body: Artifact

    @cached_property
    def content(self) -> SideArtifact:
        """The side artifact as a device decodes it."""
        return read_side_artifact(self.header, dict(self.body.tensors))


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The contents of a round's jobs, without the hyper-parameters of the configuration."""

    round_number: int  # of the round
    published: Mapping[str, Artifact]  # by prototype
    update: str = "state"
    extra: Mapping[str, float] = field(default_factory=dict)
    side_artifact: PublishedSideArtifact | None = None

    @property
    def learned_from(self) -> SideArtifact:
        """The side artifact, decoded, if there is one."""
        return SideArtifact() if self.side_artifact is None else self.side_artifact.content
