"""Boundary errors against counts by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.errors import InputError
from speechctc.metrics.boundary_errors import boundary_errors, class_of, score_boundaries


def intervals(text: str) -> list[Interval]:
    """Read ``"0 a 1 b 3"``: boundaries in tens of milliseconds around labels."""
    parts = text.split()
    times = [int(part) / 100 for part in parts[::2]]
    return [Interval(*edges) for edges in zip(times, times[1:], parts[1::2], strict=False)]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = intervals(text)
    if path.suffix == ".PHN":
        lines = [f"{round(i.start * 16000)} {round(i.end * 16000)} {i.label}\n" for i in found]
        path.write_text("".join(lines))
    else:
        path.write_text(textgrid_text(found[-1].end, {"phones": found, "other": found[:1]}))


@pytest.mark.parametrize(
    ("hypothesis", "errors"),
    [
        ("0 a 10 b 20 c 30", [("b", 0.0), ("c", 0.0)]),
        ("0 a 11 b 18 c 30", [("b", 0.01), ("c", -0.02)]),
        ("0 a 11 x 15 b 18 c 30", [("c", -0.02)]),  # something between a and b: no boundary of the two
        ("0 a 11 x 18 c 30", []),
        ("0 b 21 c 30", [("c", 0.01)]),
        ("0 x 30", []),
    ],
)
def test_errors_are_of_boundaries_between_the_same_two_phones(hypothesis: str, errors: list[tuple[str, float]]) -> None:
    found = list(boundary_errors(intervals("0 a 10 b 20 c 30"), intervals(hypothesis)))
    assert [phone for phone, _ in found] == [phone for phone, _ in errors]
    assert [error for _, error in found] == pytest.approx([error for _, error in errors], abs=1e-9)


def test_shares_medians_and_classes(tmp_path: Path) -> None:
    write(tmp_path / "ref" / "s" / "A.PHN", "0 h# 10 s 20 iy 40 t 50 h# 60")
    write(tmp_path / "hyp" / "s" / "a.TextGrid", "0 h# 11 s 17 iy 40 t 58 h# 60")
    write(tmp_path / "hyp" / "s" / "b.TextGrid", "0 h# 11 s 17")
    score = score_boundaries(tmp_path / "ref", tmp_path / "hyp")
    report = score.to_dict()
    assert (report["files"], report["reference_boundaries"], report["boundaries"]) == (1, 4, 4)
    assert report["mean_error_ms"] == pytest.approx(30.0)
    assert report["median_error_ms"] == pytest.approx(20.0) and report["median_lag_ms"] == pytest.approx(5.0)
    assert [report[f"within_{ms}_ms"] for ms in (10, 20, 50)] == [0.5, 0.5, 0.75]
    assert set(report["by_class"]) == {"fricative", "vowel", "stop", "silence"}
    assert report["by_class"]["vowel"]["median_lag_ms"] == pytest.approx(-30.0)
    assert report["unmatched_files"] == [str(tmp_path / "hyp" / "s" / "b.TextGrid")]
    text = score.to_text()
    assert "mean error" in text and "30.0 ms" in text and "50.0 %" in text and "b.TextGrid" in text and "vowel" in text


def test_two_files_and_another_tier(tmp_path: Path) -> None:
    write(tmp_path / "a.TextGrid", "0 a 10 b 20")
    write(tmp_path / "b.TextGrid", "0 a 12 b 20")
    assert score_boundaries(tmp_path / "a.TextGrid", tmp_path / "b.TextGrid").to_dict()[
        "median_error_ms"
    ] == pytest.approx(20.0)
    none = score_boundaries(tmp_path / "a.TextGrid", tmp_path / "b.TextGrid", tier="other")
    assert none.to_dict()["boundaries"] == 0 and "all" in none.to_text()


def test_each_side_has_its_tier_and_its_spelling(tmp_path: Path) -> None:
    hand, mfa = intervals("0 d͡ʒ 10 ɛ 20 g 30 h 50"), intervals("0 dʒ 11 ɛ 22 ɡ 33 h 50")
    rest = intervals("0 x 50")
    for name, speaker in (("a", "anna"), ("b", "otto")):
        (tmp_path / f"hand/{name}.TextGrid").parent.mkdir(exist_ok=True)
        (tmp_path / f"mfa/{name}.TextGrid").parent.mkdir(exist_ok=True)
        (tmp_path / f"hand/{name}.TextGrid").write_text(textgrid_text(0.5, {"phones": rest, "segments": hand}))
        tiers = {f"{speaker} - words": rest, f"{speaker} - phones": mfa}
        (tmp_path / f"mfa/{name}.TextGrid").write_text(textgrid_text(0.5, tiers))
    score = score_boundaries(tmp_path / "hand", tmp_path / "mfa", "segments", "* - phones|phones")
    assert (score.boundaries, score.to_dict()["boundaries"]) == (6, 6)
    assert score.to_dict()["mean_error_ms"] == pytest.approx(20.0)
    assert "dʒ as d͡ʒ, ɡ as g" in score.to_text()
    with pytest.raises(InputError, match="no tier 'segments'"):
        score_boundaries(tmp_path / "hand", tmp_path / "mfa", "segments")
    with pytest.raises(InputError, match="2 tiers fit 'anna.*': 'anna - words', 'anna - phones'"):
        score_boundaries(tmp_path / "hand/a.TextGrid", tmp_path / "mfa/a.TextGrid", "segments", "anna*")


def test_stress_digits_and_capitals_are_another_spelling_of_arpabet(tmp_path: Path) -> None:
    write(tmp_path / "a.TextGrid", "0 sil 5 sh 10 ah 20 n 30")
    write(tmp_path / "b.TextGrid", "0 SIL 5 SH 11 AH0 22 N 30")
    score = score_boundaries(tmp_path / "a.TextGrid", tmp_path / "b.TextGrid")
    assert sorted(np.concatenate([*score.errors.values()])) == pytest.approx([0.01, 0.02])
    assert score.boundaries == 3 and "AH0 as ah" in score.to_text()


def test_phn_samples_are_counted_at_the_recordings_own_rate(tmp_path: Path) -> None:
    write(tmp_path / "a" / "x.PHN", "0 a 10 b 20")
    write(tmp_path / "b" / "x.TextGrid", "0 a 20 b 40")
    assert score_boundaries(tmp_path / "a", tmp_path / "b").to_dict()["median_error_ms"] == pytest.approx(100.0)
    soundfile.write(tmp_path / "a" / "x.wav", np.zeros(4000), 8000)
    assert score_boundaries(tmp_path / "a", tmp_path / "b").to_dict()["median_error_ms"] == pytest.approx(0.0)


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    write(tmp_path / "a" / "x.PHN", "0 a 10 b 20")
    write(tmp_path / "b" / "y.TextGrid", "0 a 10 b 20")
    (tmp_path / "c").mkdir()
    why = {"b": "no file has the same name in both", "c": "no TextGrid or .PHN", "d": "no such folder"}
    for other, said in why.items():
        with pytest.raises(InputError, match=said):
            score_boundaries(tmp_path / "a", tmp_path / other)


@pytest.mark.parametrize("second", ["x.TextGrid", "X.TextGrid", "x.textgrid"])
def test_two_files_of_one_name_in_a_folder_are_refused(tmp_path: Path, second: str) -> None:
    first = "x.TextGrid" if second == "x.textgrid" else "x.PHN"
    write(tmp_path / "a" / first, "0 a 10 b 20")
    write(tmp_path / "a" / second, "0 a 12 b 20")
    if len(list((tmp_path / "a").iterdir())) < 2:
        pytest.skip("the file system knows no letter case")
    write(tmp_path / "b" / "x.TextGrid", "0 a 12 b 20")
    for one, other in (("a", "b"), ("b", "a")):
        with pytest.raises(InputError, match="labels of one name; keep one") as refused:
            score_boundaries(tmp_path / one, tmp_path / other)
        assert str(tmp_path / "a" / first) in str(refused.value) and str(tmp_path / "a" / second) in str(refused.value)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ("a ə yː ũ aɪ y", "vowel"),
        ("p ʈ ʔ ɓ ɾ tʰ", "stop"),
        ("ts d͡ʒ", "affricate"),
        ("s ħ ɬ", "fricative"),
        ("ŋ m̩", "nasal"),
        ("j ɹ l w", "approximant"),
        ("sil", "silence"),
        ("?! ˥", "other"),
    ],
)
def test_labels_of_ipa_have_a_class(labels: str, kind: str) -> None:
    assert {class_of(label, arpabet=False) for label in labels.split()} == {kind}


def test_letters_of_arpabet_are_not_read_as_ipa() -> None:
    found = [class_of(label, arpabet=True) for label in ("y", "q", "AH0", "hh")]
    assert found == ["approximant", "stop", "vowel", "fricative"]
