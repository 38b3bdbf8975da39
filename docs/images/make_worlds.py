"""Makes the small animations of the README from videos that Ludus recorded.

    ludus train quickstart
    ludus video latest --gif --length 260 --episodes 1 --no-overlay -o lander.gif
    ludus video balatro-ppo --gif --length 160 --episodes 1 -o balatro.gif
    python docs/images/make_worlds.py lander.gif balatro.gif

Each is scaled to 680 pixels at most, loses frames and colours, and stays below 500 KB.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

FOLDER = Path(__file__).parent
WIDTH, LIMIT = 680, 500_000


def shrink(source: Path, target: Path) -> int:
    """Write `source` as an animation of fewer frames, few enough for the limit. Returns its size in bytes."""
    video = Image.open(source)
    count, every = video.n_frames, 2
    pause = video.info.get("duration", 40)
    while True:
        frames = []
        for number in range(0, count, every):
            video.seek(number)
            scale = min(1.0, WIDTH / video.width)
            size = (round(video.width * scale), round(video.height * scale))
            frame = video.convert("RGB").resize(size, Image.Resampling.LANCZOS)
            frames.append(frame.quantize(48, dither=Image.Dither.NONE))
        shown = min(every * pause, 600)
        frames[0].save(target, save_all=True, append_images=frames[1:], duration=shown, loop=0, optimize=True)
        if target.stat().st_size < LIMIT:
            return target.stat().st_size
        every += 1


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        print(path.name, shrink(path, FOLDER / path.name))
