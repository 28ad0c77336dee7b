"""Pictures of the inside of a model: filters, maxout pieces, feature maps, posteriors, saliency; and a page of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speechctc.audio import sound_file
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.inference.inside import Array, Inside, first_filters, layers_of, look_inside, saliency
from speechctc.inference.recogniser import Recogniser
from speechctc.pages import figures as pictures
from speechctc.pages.figures import require_matplotlib
from speechctc.pages.page import data_url, render_page
from speechctc.pages.spectrogram import SpectrogramSettings, levels_db

LONGEST = 20.0  # s of a recording that are looked at
COLUMNS, ROWS = 900, 160  # of the spectrogram
PAGE = "inside.html"


@dataclass(frozen=True)
class Picture:
    """A picture: the name of its file, its PNG, a heading, and what it shows, in words."""

    name: str
    png: bytes
    title: str
    text: str


def inspect(
    recogniser: Recogniser, audio: Path | None, layer: str | None, phone: str | None, channel: int | None = None
) -> list[Picture]:
    """Draw the inside of a model.

    Parameters
    ----------
    recogniser : Recogniser
    audio : Path or None
        A recording, of which the first 20 s are looked at; None: only what does not depend on one is drawn.
    layer : str or None
        The layer whose feature maps and units are drawn; None: conv1.
    phone : str or None
        The phone whose saliency is drawn; None: the one with the highest posterior.
    channel : int, optional
        The channel of the recording to read, from 1; None: the mean of all.

    Raises
    ------
    InputError
        matplotlib is not installed, there is no such layer or phone, or the recording cannot be used.
    """
    require_matplotlib()
    layers = layers_of(recogniser.checkpoint)
    chosen = layer or "conv1"
    if chosen not in layers:
        raise InputError(f"--layer {chosen}: the model has no such layer", f"name one of: {' '.join(layers)}")
    number = None if phone is None else recogniser.inventory.encode([phone])[0]
    filters = first_filters(recogniser.checkpoint)
    text = (
        f"The {len(filters)} filters of the first layer (at most {pictures.MOST_FILTERS} are shown): {filters.shape[2]}"
        f" bands high, {filters.shape[3]} frames wide, red where positive. A row for each channel of the input."
    )
    found = [Picture("filters", pictures.draw_filters(filters), "First filters", text)]
    if audio is None:
        return found
    rate = recogniser.config.features.sample_rate
    samples = sound_file.read(audio, rate, channel)[0][: round(LONGEST * rate)]
    seen = look_inside(recogniser.checkpoint, samples)
    found += _pieces(seen, chosen)
    seconds = len(samples) / rate
    maps = pictures.draw_maps(seen.maps[chosen], chosen, seconds)
    found.append(
        Picture(f"maps-{chosen}", maps, f"Feature maps of {chosen}", f"What {chosen} computes of {audio.name}.")
    )
    return [*found, _posteriors(recogniser, seen, samples), _saliency(recogniser, seen, samples, number)]


def _pieces(seen: Inside, layer: str) -> list[Picture]:
    if not seen.wins:
        return []
    dead = {name: float((counts == 0).mean()) for name, counts in seen.wins.items()}
    text = "How often each piece of each maxout unit is the largest; a colour for each piece. Pieces that never win: "
    text += ", ".join(f"{name} {100 * share:.1f} %" for name, share in dead.items()) + "."
    found = [Picture("wins", pictures.draw_wins(seen.wins), "Which piece wins", text)]
    name = layer if layer in seen.units else next(iter(seen.units), None)
    if name is not None:
        png = pictures.draw_functions(seen.units[name], name)
        found.append(Picture("functions", png, "The functions of the units", functions_text(seen)))
    return found


def functions_text(seen: Inside) -> str:
    """Return how many units of each layer have which shape, in words."""
    parts = []
    for name, units in seen.units.items():
        counts = Counter(unit.shape for unit in units)
        shares = ", ".join(f"{shape} {100 * count / len(units):.0f} %" for shape, count in counts.most_common())
        parts.append(f"{name}: {shares}")
    return (
        "Black: the unit's output; dashed: its two pieces; grey: how often an input occurs, in standard deviations. A"
        " rectifier has a flat piece, a leaky rectifier two pieces that both rise or both fall, a valley one of each. "
        + "; ".join(parts)
        + "."
    )


def _posteriors(recogniser: Recogniser, seen: Inside, samples: Array) -> Picture:
    rate, settings = recogniser.config.features.sample_rate, SpectrogramSettings()
    levels = levels_db(samples, rate, settings, COLUMNS, ROWS)
    posteriors = np.exp(seen.log_posteriors)
    blank = float((posteriors.argmax(1) == 0).mean())
    png = pictures.draw_posteriors(levels, posteriors, recogniser.phones, len(samples) / rate, settings.highest)
    text = f"The posterior of each phone over time. The blank is the best class in {100 * blank:.0f} % of the frames."
    return Picture("posteriors", png, "Posteriors", text)


def _saliency(recogniser: Recogniser, seen: Inside, samples: Array, phone: int | None) -> Picture:
    scores = seen.log_posteriors[:, 1:]
    number = phone if phone is not None else 1 + int(scores.max(0).argmax())
    frame = int(seen.log_posteriors[:, number].argmax())
    name, seconds = recogniser.phones[number - 1], len(samples) / recogniser.config.features.sample_rate
    weight = saliency(recogniser.checkpoint, samples, number, frame)
    at = recogniser.clock.seconds(frame)
    png = pictures.draw_saliency(seen.features[0], weight, name, at, seconds)
    best = float(np.exp(seen.log_posteriors[frame, number]))
    text = f"Bright: what changes the log posterior of [{name}] most, where its posterior is highest: {best:.2f}."
    return Picture("saliency", png, f"Saliency of [{name}]", text)


def write_pictures(found: list[Picture], out: Path, title: str, model: str, overwrite: bool) -> list[Path]:
    """Write the pictures into a folder, and a page with all of them; return the files.

    Raises
    ------
    InputError
        A file was made or changed by hand.
    """
    paths = [out / f"{picture.name}.png" for picture in found]
    written.refuse_changed([*paths, out / PAGE], overwrite)
    shown = [(picture, data_url(picture.png, "image/png")) for picture in found]
    page = render_page("inside.html", title, {"pictures": shown, "model": model})
    out.mkdir(parents=True, exist_ok=True)
    for path, picture in zip(paths, found, strict=True):
        written.write_bytes(path, picture.png, overwrite)
    written.write_text(out / PAGE, page, overwrite)
    return [*paths, out / PAGE]
