"""Which tier of TextGrids holds the phones."""

from pathlib import Path

from speechctc.corpora.phone_tier import phone_tier
from tests.corpora.test_textgrid import write


def test_the_tier_of_phones_is_found_in_chronological_and_misspelt_textgrids(tmp_path: Path) -> None:
    chronological = (
        '"Praat chronological TextGrid text file"\n0 0.2\n2\n'
        '"IntervalTier" "SEGM" 0 0.2\n"IntervalTier" "words" 0 0.2\n'
        '1 0 0.1 "a"\n2 0 0.2 "two words"\n1 0.1 0.2 "b"\n'
    )
    (tmp_path / "a.TextGrid").write_text(chronological)
    write(tmp_path, "b", "s aa", tier="segm")
    (tmp_path / "c.TextGrid").write_text("nothing")
    tier, note = phone_tier([tmp_path / f"{name}.TextGrid" for name in "abc"])
    assert tier == "SEGM" and "'SEGM' (4 labels" in note
