"""The latest run: what ``runs/latest`` leads to."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from speechctc.core.files import draft_folder

LATEST = Path("runs/latest")
POINTER = "run: "  # before the path in a file ``runs/latest``, where there are no links


def latest_run() -> Path | None:
    """Return the folder that ``runs/latest`` means: a link, or a file with its path; None if there is none."""
    try:
        text = LATEST.read_text(encoding="utf-8") if LATEST.is_file() else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    folder = LATEST.parent / text.removeprefix(POINTER).strip() if text.startswith(POINTER) else LATEST
    return folder.resolve() if folder.is_dir() else None


def point_latest(folder: Path) -> None:
    """Point ``runs/latest`` to this folder; what a person put there in place of the link stays.

    Where links cannot be made (Windows asks for a right that users rarely have), it is a file with the folder's path.
    """
    if os.path.lexists(LATEST) and not LATEST.is_symlink() and latest_run() is None:
        return
    path = os.path.relpath(folder, LATEST.parent)
    with suppress(OSError), draft_folder(LATEST) as draft:
        link = draft / LATEST.name
        try:
            link.symlink_to(path, target_is_directory=True)
        except OSError:
            link.write_text(f"{POINTER}{path}\n", encoding="utf-8")
        os.replace(link, LATEST)
