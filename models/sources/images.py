"""One picture: opened without trusting its header, decoded, resized. Pillow is imported on first use."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from core.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SUFFIXES", "check_picture", "decode_picture", "is_grey", "open_picture"]

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm"}
MAX_PIXELS = 50_000_000  # per picture; a header may claim any size
_GREY = ("1", "L", "LA")


def open_picture(file: Path, content: IO[bytes] | None = None) -> Any:
    """The picture in `file`, or in its `content`, with its header read; DataError if it is no picture, or too large."""
    try:
        from PIL import Image
    except ImportError:
        raise ConfigError("pictures need Pillow, which is missing; run: pip install 'edgestill[images]'") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the check below is stricter
            image = Image.open(file if content is None else content)
    except Exception as error:  # UnidentifiedImageError, and what a decoder makes of a hostile header
        why = _why(error, content)
        raise DataError(f"{file}: not a readable picture ({why}); remove or replace it") from None
    if image.size[0] * image.size[1] > MAX_PIXELS:
        image.close()
        raise DataError(f"{file}: {image.size[0]}x{image.size[1]} pixels, the limit is {MAX_PIXELS:,}; make it smaller")
    return image


def check_picture(file: Path, image: Any) -> None:
    """DataError for more than 8 bits per channel, which Pillow would clip at 255."""
    if image.mode.startswith(("I", "F")):
        raise DataError(f"{file}: more than 8 bits per channel ({image.mode}); save it as an 8-bit picture")


def is_grey(image: Any) -> bool:
    """Whether the picture has no colours."""
    return image.mode in _GREY


def decode_picture(
    file: Path, size: tuple[int, int], *, grey: bool, content: IO[bytes] | None = None
) -> NDArray[np.uint8]:
    """Its pixels (C, H, W), C = 1 if `grey` else 3, resized (bilinear) to `size` = (width, height) if it has another.

    DataError, in one line that begins with `file`, for what cannot be decoded, and for more than 8 bits per channel.
    """
    import numpy as np

    with open_picture(file, content) as image:
        check_picture(file, image)
        from PIL import Image

        try:
            pixels = image.convert("L" if grey else "RGB")
        except Exception as error:  # decoders raise anything for hostile bytes: SyntaxError, struct.error, EOFError
            raise DataError(f"{file}: cut short or damaged ({_why(error, content)}); remove or replace it") from None
    if pixels.size != size:
        pixels = pixels.resize(size, Image.Resampling.BILINEAR)
    decoded: NDArray[np.uint8] = np.atleast_3d(np.asarray(pixels)).transpose(2, 0, 1)
    return decoded


def _why(error: Exception, content: IO[bytes] | None) -> str:
    text = " ".join(str(error).replace(f" {content!r}", "").split()) or type(error).__name__
    return text if len(text) < 200 else f"{text[:199]}…"
