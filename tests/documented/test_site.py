"""The site of the documents: complete, readable from a disk, and without a request to another host."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from speechctc.cli import app
from speechctc.ctc import ctc_loss, posteriors
from tests.browser import browser, console, set_screen, wait_until
from tests.conftest import made_once
from tests.documented.reading import ROOT


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site; made once."""
    pytest.importorskip("material", reason="mkdocs-material, of the extra docs, is not installed")

    def make(folder: Path) -> None:
        build = [sys.executable, str(ROOT / "scripts" / "docs"), "--out", str(folder / "site")]
        done = subprocess.run(build, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return made_once(tmp_path_factory, "site", make) / "site"


def test_the_reference_has_every_command_option_and_key(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app.app)
    for name, command in group.commands.items():
        assert f">{name}<" in commands or hasattr(command, "commands"), name
        options = [each for parameter in command.params for each in parameter.opts if each.startswith("--")]
        assert [each for each in options if each not in commands and each != "--help"] == []
    config = (site / "reference" / "config.html").read_text(encoding="utf-8")
    schema = json.loads((ROOT / "configs" / "schema.json").read_text(encoding="utf-8"))
    for key in schema["$defs"]["TrainConfig"]["properties"]:
        assert f"train.{key}" in config


def test_pages_load_nothing_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|link|iframe)[^>]*\s(?:src|href)="(https?:[^"]+)', page.read_text("utf-8"))
        assert loaded == [], page


def test_the_site_can_be_read_and_searched_from_a_disk(site: Path) -> None:
    with browser() as driver:
        driver.get((site / "index.html").as_uri())
        set_screen(driver, 390, dark=True)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        set_screen(driver, 1200, dark=False)
        field = driver.find_element("css selector", ".md-search__input")
        driver.execute_script("arguments[0].focus()", field)
        field.send_keys("a boundary")
        count = "parseInt(document.querySelector('.md-search-result__meta').textContent)"
        pages = len(list(site.rglob("*.html")))
        wait_until(driver, f"{count} > 2 && {count} < {pages / 2}")  # "a" begins a word of every page
        assert console(driver) == []


def test_the_first_page_shows_what_to_type_and_what_comes(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    shown = first.partition("<h2")[0]
    assert "pip install" in shown and "speechctc decode" in shown and "sh iy hh ae" in shown and "<img" in shown
    assert "content.code.copy" in first and 'class="md-footer__link md-footer__link--next"' in first


@pytest.mark.parametrize("factor", [1.0, 0.0, 1.7])
def test_the_page_of_the_lattice_computes_what_the_loss_does(factor: float) -> None:
    page = ROOT / "docs" / "explain" / "lattice.html"
    match = re.search(r"^const data = (.*);$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert match is not None
    data = json.loads(match[1])
    logits = factor * torch.tensor(data["logits"])[:, None]
    targets = torch.tensor([[data["names"].index(phone) for phone in data["phones"]]])
    lengths = torch.tensor([len(logits)]), torch.tensor([targets.shape[1]])
    with browser() as driver:
        driver.get(page.as_uri())
        found = driver.execute_script("return window.lattice.compute(arguments[0])", factor)
        assert console(driver) == []
    expected = posteriors(logits, targets, *lengths)[0]
    torch.testing.assert_close(torch.tensor(found["gamma"]), expected, atol=1e-5, rtol=1e-4)
    logits.requires_grad_()
    loss = ctc_loss(logits, targets, *lengths, reduction="sum")
    loss.backward()
    assert found["z"] == pytest.approx(-loss.item(), abs=1e-3)
    assert logits.grad is not None
    torch.testing.assert_close(torch.tensor(found["gradient"]), logits.grad[:, 0], atol=1e-5, rtol=1e-4)


def test_anchors_that_messages_name_are_there() -> None:
    named = set()
    for source in [path for path in (ROOT / "speechctc").rglob("*.*") if path.suffix in (".py", ".yaml", ".txt")]:
        named |= set(re.findall(r"(docs/[\w/-]+\.md)#([\w-]+)", source.read_text(encoding="utf-8")))
    assert len(named) > 3
    for page, anchor in named:
        headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
