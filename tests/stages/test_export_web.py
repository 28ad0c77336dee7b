"""A model as a page: where it is written, what is in it, and what cannot be one."""

from __future__ import annotations

import base64
import gzip
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import speechctc
from speechctc.cli.app import app
from speechctc.core.errors import InputError
from speechctc.pages import page
from speechctc.pages.page import bundled_script
from speechctc.stages import export as stage
from speechctc.stages.export import export_web, page_text
from tests.tones import PHONES


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["export", *map(str, arguments)])


def test_it_is_one_file_that_loads_nothing_and_says_nothing_of_this_machine(tiny_model: Path, here: Path) -> None:
    done = run(here / "page", "--format", "web", "--model", tiny_model)
    assert not done.exit_code and "page/index.html: " in done.stdout
    text = (here / "page" / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)""", text.partition("<script")[0])
    assert str(here) not in text and str(tiny_model.parent) not in text and "<strong>run</strong>" in text
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)
    assert policy and "default-src &#39;none&#39;" in policy[1]
    assert "http" not in policy[1] and "connect-src" not in policy[1] and "unsafe-inline&#39;;" in policy[1]
    weights = re.search(r'class="weights">([^<]*)<', text)
    assert weights and b"normalisation.mean" in base64.b64decode(weights[1])


def test_its_name_or_format_says_what_is_written(tiny_model: Path, here: Path) -> None:
    assert not run(here / "a.html", "--model", tiny_model).exit_code and (here / "a.html").is_file()
    assert not run(here / "given", "--format", "folder", "--model", tiny_model).exit_code
    assert (here / "given" / "weights.safetensors").is_file()
    for out, form, said in (
        ("a.onnx", "web", "by its name this is not"),
        ("b", "onnx", "by its name this is not"),
        ("b", "pdf", "choose from: folder, onnx, web"),
    ):
        done = run(here / out, "--format", form, "--model", tiny_model)
        assert isinstance(done.exception, InputError) and said in str(done.exception)


def test_a_dictionary_comes_with_a_page_as_far_as_it_fits(
    tiny_model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["".join(letters) for letters in product("abcdefgh", repeat=4)]
    entries = [f"{word}\t{PHONES[k % len(PHONES)]} {PHONES[k // 7 % len(PHONES)]}\n" for k, word in enumerate(words)]
    (here / "words.dict").write_text("".join(entries), encoding="utf-8")
    given = ("--model", tiny_model, "--dictionary", here / "words.dict")
    done = run(here / "a.html", *given)
    assert not done.exit_code and "words.dict: 4,096 words, 0.0 MB of the page" in done.stderr
    monkeypatch.setattr(stage, "WORDS_BYTES", 2000)
    done = run(here / "b.html", *given)
    said = re.search(r"2 MB of the page hold the first ([\d,]+) of its 4,096 words; put the most", done.stderr)
    packed = re.search(r'class="words">([^<]*)<', (here / "b.html").read_text(encoding="utf-8"))
    assert said and packed and 1500 < len(base64.b64decode(packed[1])) <= 2000
    lines = gzip.decompress(base64.b64decode(packed[1])).decode().split("\n")
    assert len(lines) == int(said[1].replace(",", ""))
    assert lines == [entry.rstrip() for entry in entries[: len(lines)]]
    done = run(here / "folder", *given)
    assert isinstance(done.exception, InputError) and "only a page has a dictionary with it" in str(done.exception)
    (here / "words.dict").write_text("word xyz\n", encoding="utf-8")
    done = run(here / "c.html", *given)
    assert isinstance(done.exception, InputError) and "phones outside of the set" in str(done.exception)


def test_the_work_of_a_person_is_kept(tiny_model: Path, here: Path) -> None:
    out = here / "site"
    out.mkdir()
    (out / "index.html").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="by hand"):
        export_web(tiny_model / "best", out)
    (out / "other.txt").write_text("mine", encoding="utf-8")
    export_web(tiny_model / "best", out, overwrite=True)
    export_web(tiny_model / "best", out)  # its own page may be replaced
    with (out / "index.html").open("a", encoding="utf-8") as file:
        file.write("<!-- mine -->")
    with pytest.raises(InputError, match="changed by hand"):
        export_web(tiny_model / "best", out)
    assert (out / "other.txt").read_text(encoding="utf-8") == "mine"
    with pytest.raises(InputError, match="a file, not a folder"):
        export_web(tiny_model / "best", out / "other.txt")


def test_what_the_page_lacks_is_refused_in_one_line(
    tiny_model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recogniser = speechctc.load(tiny_model, "cpu")
    odd = recogniser.config.model.model_copy(update={"activation": "gelu"})
    recogniser.config = recogniser.config.model_copy(update={"model": odd})
    with pytest.raises(InputError, match="m: its net or its features are not of a kind that the page has"):
        page_text(recogniser, tiny_model / "best", "m")
    monkeypatch.setattr(stage, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="more than a page can hold"):
        export_web(tiny_model / "best", here / "page")
    assert not (here / "page").exists()


def test_modules_become_one_script_in_the_order_of_their_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.js").write_text('import { one as first } from "./deep/b.js";\nexport const two = first() + 1;\n')
    (tmp_path / "deep" / "b.js").write_text('import * as all from "./c.js";\nexport function one() { return all.x; }')
    (tmp_path / "deep" / "c.js").write_text("export const x = 1, y = 2;\nclass Hidden {}\n")
    monkeypatch.setattr(page, "HERE", tmp_path)
    text = bundled_script("a.js")
    assert text.index("x = 1") < text.index("function one") < text.index("two = first")
    assert "import " not in text and "export " not in text
    assert "const { one: first } = module_deep_b;" in text and "const all = module_deep_c;" in text
