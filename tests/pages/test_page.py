"""Pages are one file: everything is escaped, and the policy allows what is in the page and nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import jinja2
import pytest

from speechctc.pages import page
from speechctc.pages.page import data_url, render_page

NASTY = '<script>alert("1")</script>&\'ɡ'


class Parts(HTMLParser):
    """The tags with their attributes, and the text inside each kind of tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open, []).append(data)


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a template beside the package's."""
    (tmp_path / "one.html").write_text(
        '{% extends "page.html" %}{% block main %}<p id="{{ said }}">{{ said }}</p>{% endblock %}'
    )
    loader = jinja2.FileSystemLoader([tmp_path, page.HERE / "templates"])
    monkeypatch.setattr(page.environment(), "loader", loader)
    return "one.html"


def test_values_and_title_are_escaped(template: str) -> None:
    parts = Parts(render_page(template, NASTY, {"said": NASTY}))
    assert "script" not in [tag for tag, _ in parts.tags]
    assert [attributes.get("id") for tag, attributes in parts.tags if tag == "p"] == [NASTY]
    assert parts.texts["p"][0] == parts.texts["title"][0] == parts.texts["h1"][0] == NASTY


def test_the_policy_allows_the_style_and_the_script_of_the_page_by_their_hashes(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "act.js").write_text('document.title = "é < &";\n', encoding="utf-8")
    parts = Parts(render_page(template, "a", {"said": ""}, scripts=[str(tmp_path / "act.js")]))
    policy = next(attributes["content"] or "" for tag, attributes in parts.tags if "http-equiv" in attributes)
    assert "default-src 'none'" in policy
    for kind in ("style", "script"):
        text = parts.texts[kind][0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert re.search(rf"{kind}-src 'sha256-{re.escape(digest)}'(;|$)", policy), kind


def test_a_page_without_a_script_allows_none_and_a_server_may_add_to_the_policy(template: str) -> None:
    html = render_page(template, "a", {"said": ""}, allow={"connect-src": "'self'", "media-src": "'self'"})
    assert "script-src &#39;none&#39;" in html and "<script" not in html
    assert "connect-src &#39;self&#39;" in html and "media-src data: &#39;self&#39;" in html


def test_the_look_loads_nothing() -> None:
    assert not re.search(r"url\(|@import|//", (page.HERE / page.STYLESHEET).read_text(encoding="utf-8"))


def test_a_missing_value_is_an_error_not_a_gap(template: str) -> None:
    with pytest.raises(jinja2.UndefinedError, match="said"):
        render_page(template, "a", {})


def test_data_urls() -> None:
    assert data_url(b"\x00\xff", "image/png") == "data:image/png;base64,AP8="
