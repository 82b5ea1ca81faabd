"""A configuration struct with a field of every kind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from core.errors import ConfigError
from core.settings import (
    Settings,
)


def parse_size(value: Any) -> tuple[int, ...]:
    words = str(value).split("x")
    if not all(word.isdecimal() for word in words):
        raise ValueError('write it like "3x4"')
    return tuple(map(int, words))


class Tls(Settings, frozen=True, kw_only=True):
    ca: Path
    cert: Path | None = None

    def __post_init__(self) -> None:
        if self.cert == self.ca:
            raise ConfigError("'cert' is the ca")


class Agent(Settings, frozen=True, kw_only=True):
    device: str
    threads: Annotated[int, Meta(ge=1, le=8, description="of the child", extra={"panel": "Limits"})] = 1
    lr: Annotated[float, Meta(ge=0)] = 0.1
    verbose: bool = False
    state: Path | None = None
    tags: tuple[str, ...] = ()
    floats: Literal["fp16", "fp32"] = "fp16"
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    tls: Tls | None = None
    bits: Literal[8, 1] | None = 8
    labels: tuple[int, ...] = ()
    files: tuple[Path, ...] = ()
    password: Annotated[str, Meta(extra={"secret": True})] | None = None
    size: Annotated[tuple[int, ...], Meta(extra={"parse": parse_size})] = (1,)
    memory_mb: Annotated[int, Meta(ge=64)] | None = None
