"""Which tier of TextGrids holds the phones."""

from pathlib import Path

from speechctc.corpora.textgrid import phone_tier
from tests.corpora.test_textgrid import write


def test_the_tier_of_phones_is_found_in_misspelt_textgrids(tmp_path: Path) -> None:
    write(tmp_path, "a", "a b", tier="SEGM")
    write(tmp_path, "b", "s aa", tier="segm")
    (tmp_path / "c.TextGrid").write_text("nothing")
    tier, note = phone_tier([tmp_path / f"{name}.TextGrid" for name in "abc"])
    assert tier == "SEGM" and "'SEGM' (4 labels" in note
