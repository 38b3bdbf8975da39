"""Camera images: both decoders give the same result and reject invalid images."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from ludus.games.unity import camera
from ludus.games.unity.camera import ImageError, decode_image
from ludus.games.unity.simulator.drawing import as_png, draw
from ludus.games.unity.simulator.tank import Yard

DECODERS = {"PIL": camera._with_pillow, "av": camera._with_av}


@pytest.mark.parametrize("decoder", ["PIL", "av"])
def test_png_is_decoded_exactly(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "_has", lambda name: name == decoder)
    image = draw(Yard("uc1", seed=1), 48)
    np.testing.assert_array_equal(decode_image(as_png(image)), image)
    assert decode_image(as_png(image), height=20, width=30).shape == (20, 30, 3)
    assert decode_image(as_png(image), height=20, width=30, gray=True).shape == (20, 30, 1)


@pytest.mark.parametrize("decoder", ["PIL", "av"])
def test_jpeg_is_decoded_approximately(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "_has", lambda name: name == decoder)
    image = np.full((32, 32, 3), (200, 100, 50), np.uint8)
    data = io.BytesIO()
    Image.fromarray(image).save(data, "JPEG")
    assert np.abs(decode_image(data.getvalue()).astype(int) - image).max() < 8


def png_header(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + chunk


@pytest.mark.parametrize("decoder", ["PIL", "av"])
@pytest.mark.parametrize(
    "data",
    [b"not an image", as_png(np.zeros((8, 8, 3), np.uint8))[:40], png_header(60_000, 60_000), b"GIF89a"],
)
def test_invalid_image_raises(decoder: str, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "_has", lambda name: name == decoder)
    with pytest.raises(ImageError):
        decode_image(data)


def test_missing_decoder_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "_has", lambda name: False)
    with pytest.raises(Exception, match="video"):
        decode_image(b"")
