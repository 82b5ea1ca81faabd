"""Pictures of samples for tests, old enough to be taken."""

import os
import time
from pathlib import Path

import numpy as np
from PIL import Image


def old(path: Path, seconds: float = 60.0) -> Path:
    """`path`, last changed so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def draw(path: Path, value: int = 0, *, size: tuple[int, int] = (8, 8), mode: str = "L", age: float = 60.0) -> Path:
    """A picture whose bytes depend on its name and value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([value, *path.name.encode()])
    pixels = np.clip(value + rng.integers(-8, 9, (size[1], size[0], 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)
    return old(path, age)
