"""Writes greyscale PNG pictures."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

LEVELS = 16  # shades of grey; 4 bits a pixel
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _UP = 0, 2  # colour type; the filter that keeps the difference from the row above


def grey_png(levels: NDArray[np.uint8], effort: int = 9) -> bytes:
    """Return a picture in 16 shades of grey as PNG (ISO/IEC 15948).

    Parameters
    ----------
    levels : ndarray, uint8, shape = (height, width)
        0, black, to 15, white; the first row is at the top.
    effort : int
        Of the compression: 9, the smallest file, to 1, twenty times as fast.
    """
    height, width = levels.shape
    even = np.pad(levels, ((0, 0), (0, width % 2)))
    packed = (even[:, ::2] << 4) | even[:, 1::2]
    changes = np.diff(packed, axis=0, prepend=np.zeros_like(packed[:1]))  # modulo 256, as the filter is defined
    rows = np.concatenate([np.full((height, 1), _UP, dtype=np.uint8), changes], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 4, _GREY, 0, 0, 0)
    return _SIGNATURE + b"".join(
        _chunk(kind, content)
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), effort)), (b"IEND", b""))
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
