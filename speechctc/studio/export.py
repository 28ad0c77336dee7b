"""Downloads: the labels of a recording in any format of `speechctc decode`, and a zip of the folder."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from speechctc.audio.annotations import Interval
from speechctc.audio.eaf import eaf_text
from speechctc.audio.tiers import Tier
from speechctc.core.errors import InputError
from speechctc.inference.formats import CSV, WRITERS, RecordingName
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.studio.document import Document
from speechctc.studio.folder import readable

PIECE = 1 << 20  # bytes of a recording to copy at a time


def as_file(name: str, document: Document, form: str) -> tuple[str, bytes]:
    """Return the name and the content of a recording's labels in a format.

    Raises
    ------
    InputError
        There is no such format.
    """
    writer = WRITERS.get(form)
    if writer is None:
        raise InputError(f"there is no format {form!r:.20}", f"choose one of: {', '.join(WRITERS)}")
    result = recognition(name, document)
    if form == "textgrid":
        text = document.text()
    elif form == "eaf":
        others = {tier.name: _intervals(tier) for tier in document.grid.others if not tier.points}
        text = eaf_text({**result.tiers(), **others}, document.recording.resolve())
    else:
        place = str(document.recording) if writer.holds_one or writer.shows_sound else name
        text = writer.whole(RecordingName(place, Path(name).stem), result)
    return Path(name).stem + writer.ending, text.encode("utf-8", "backslashreplace")


def _intervals(tier: Tier) -> list[Interval]:
    return [Interval(*entry) for entry in tier.entries if entry.label]


def recognition(name: str, document: Document) -> Recognition:
    """Return the labels of a recording as a result of `speechctc decode`; what a person chose has confidence 1."""
    segments = (
        Segment(p.label, p.start, p.end, 1.0 if p.checked or p.confidence is None else p.confidence, p.alternatives)
        for p in tuple(document.phones)
    )
    return Recognition(str(document.recording), document.seconds, tuple(segments))


def zip_pieces(documents: Mapping[str, Document | None], recordings: Mapping[str, Path]) -> Iterator[bytes]:
    """Yield a zip file of the recordings with their TextGrids, and a table of all phones, piece by piece.

    Parameters
    ----------
    documents : mapping of str to Document or None
        By the names of the recordings; None where the labels cannot be read: then the TextGrid goes in as it is.
    recordings : mapping of str to Path
    """
    out = _Pieces()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        table = [CSV.head()]
        for name, document in documents.items():
            about = zipfile.ZipInfo.from_file(recordings[name], name, strict_timestamps=False)
            with archive.open(about, "w", force_zip64=True) as entry:
                with open(recordings[name], "rb") as file:
                    while piece := file.read(PIECE):
                        entry.write(piece)
                        yield out.take()
            if document is not None and document.phones:
                grid = Path(name).with_name(readable(document.grid_path.name)).as_posix()
                archive.writestr(grid, document.text().encode("utf-8"), zipfile.ZIP_DEFLATED)
                table += [CSV.row(RecordingName(name, ""), each, None) for each in recognition(name, document).segments]
            yield out.take()
        archive.writestr("phones.csv", "".join(table).encode("utf-8", "backslashreplace"), zipfile.ZIP_DEFLATED)
    yield out.take()


class _Pieces(io.RawIOBase):
    """A file that is only written, and whose content is taken while it is written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def seekable(self) -> bool:
        return False

    def take(self) -> bytes:
        """Return what was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
