"""Camera images: decode the JPEG or PNG in a sensor_msgs/CompressedImage with Pillow or PyAV."""

from __future__ import annotations

import importlib.util
import io
from typing import Any

import numpy as np

from ludus.errors import MissingExtra
from ludus.types import Array

MAX_PIXELS = 4_096 * 4_096


class ImageError(ValueError):
    """An image that cannot be decoded."""


def require_decoder() -> None:
    """Raise MissingExtra if neither Pillow nor PyAV is installed."""
    if not (_has("PIL") or _has("av")):
        raise MissingExtra("decoding camera images", "video")


def decode_image(
    data: bytes, *, height: int | None = None, width: int | None = None, gray: bool = False
) -> Array:
    """Return an image as (height, width, 3) bytes, or (…, 1) if `gray`, resized if asked. ImageError if invalid."""
    require_decoder()
    decode = _with_pillow if _has("PIL") else _with_av
    image = decode(data, height, width, gray)
    return image[:, :, None] if image.ndim == 2 else image


def _with_pillow(data: bytes, height: int | None, width: int | None, gray: bool) -> Array:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ImageError(f"the image is too large: {image.width} x {image.height}")
            small = image.convert("L" if gray else "RGB")
            if height is not None and width is not None and small.size != (width, height):
                small = small.resize((width, height), Image.Resampling.BILINEAR)
            return np.asarray(small).copy()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ImageError(f"the image cannot be decoded ({error})") from None


def _with_av(data: bytes, height: int | None, width: int | None, gray: bool) -> Array:
    import av

    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.video[0]
            if stream.width * stream.height > MAX_PIXELS:
                raise ImageError(f"the image is too large: {stream.width} x {stream.height}")
            frame = next(container.decode(stream))
            pixels: Any = frame.reformat(
                width=width or frame.width, height=height or frame.height, format="gray" if gray else "rgb24"
            )
            return np.asarray(pixels.to_ndarray()).copy()
    except (av.FFmpegError, StopIteration, IndexError, ValueError) as error:
        raise ImageError(f"the image cannot be decoded ({error})") from None


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
