"""What the devices of a round are told: models, and what to learn from beside them. The same for all engines.

An `Artifact` is known by the SHA-256 of its bytes, as it is over MQTT: a worker that has it is not sent it again.
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
    """Published bytes: a tensor message."""

    data: bytes

    @classmethod
    def known(cls, digest: str, data: bytes) -> Artifact:
        """What another process has hashed already."""
        made = cls(data)
        made.__dict__["digest"] = digest
        return made

    @cached_property
    def digest(self) -> str:
        """Of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Decoded once, however many devices start from it; read-only."""
        return decode(self.data, intact=True)


@dataclass(frozen=True)
class PublishedSideArtifact:
    """A generator or the fleet's logits by label, as it is published."""

    header: ModelHeader
    body: Artifact

    @cached_property
    def content(self) -> SideArtifact:
        """As a device reads it."""
        return read_side_artifact(self.header, dict(self.body.tensors))


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a job says beside the hyper-parameters of all."""

    number: int  # of the round
    published: Mapping[str, Artifact]  # by prototype
    update: str = "state"
    extra: Mapping[str, float] = field(default_factory=dict)
    side_artifact: PublishedSideArtifact | None = None

    @property
    def learned_from(self) -> SideArtifact:
        """What the devices learn from beside samples."""
        return SideArtifact() if self.side_artifact is None else self.side_artifact.content
