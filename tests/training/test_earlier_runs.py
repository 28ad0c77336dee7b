"""Runs that earlier versions made and saved, each of another form: they are resumed, or refused in words.

``earlier/`` has, zipped, the features and the run of two epochs that the code of then made of a tiny corpus of tones.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from speechctc.core.errors import InputError
from speechctc.training.runs import Run
from tests.train_helpers import run_once

FORMS = sorted((Path(__file__).parent / "earlier").glob("*.zip"))
REFUSED = 2  # the first ones, whose numbers had no names


def resume(form: Path) -> None:
    with zipfile.ZipFile(form) as archive:
        archive.extractall()
    run_once(Path("tones.yaml"), Path("run"), "train.epochs=3", "train.curves=false", "model.context=0", resume=True)


@pytest.mark.parametrize("form", FORMS[REFUSED:], ids=lambda form: form.stem)
def test_a_run_of_each_earlier_form_goes_on(form: Path, here: Path) -> None:
    resume(form)
    epochs = Run(Path("run")).epochs()
    assert [(line["epoch"], line["step"]) for line in epochs] == [(1, 3), (2, 6), (3, 9)]
    assert all(line["loss"] == pytest.approx(2.7, abs=0.3) for line in epochs)
    assert load_file("run/last/state.safetensors")["progress.stage_step"] == 9


@pytest.mark.parametrize("form", FORMS[:REFUSED], ids=lambda form: form.stem)
def test_a_run_of_a_form_that_is_not_read_any_more_is_refused_in_words_and_its_weights_serve(
    form: Path, here: Path
) -> None:
    with pytest.raises(InputError, match=r"^run/last: its training state is damaged .* train\.init_from=run/best"):
        resume(form)
    run_once(Path("tones.yaml"), Path("new"), "train.init_from=run/best", "train.epochs=1")
    assert Path("new/best/checkpoint.json").exists()
