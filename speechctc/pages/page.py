"""Renders a self-contained HTML page from a template: style, scripts, pictures and sound are in the one file."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from speechctc.core.errors import plural, printable

HERE = Path(__file__).parent
STYLESHEET = "look.css"
_POLICY = {
    "default-src": "'none'",
    "img-src": "data:",
    "media-src": "data:",
    "style-src-attr": "'unsafe-inline'",  # positions on the time axis
    "base-uri": "'none'",
    "form-action": "'none'",
}
_IMPORT = re.compile(r'^import (\{[^}]*\}|\* as \w+) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:const|class|function\*?) (\w+)", re.MULTILINE)


def render_page(
    template: str,
    title: str,
    values: Mapping[str, Any],
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    allow: Mapping[str, str] | None = None,
) -> str:
    """Return a page as HTML; every value is escaped, and the page loads nothing from elsewhere.

    Parameters
    ----------
    template : str
        A file of ``templates/``, which extends ``page.html``.
    title : str
        The title of the page, and its main heading.
    values : mapping of str to Any
        What the template shows. Text is escaped, unless it is `Markup`.
    styles, scripts : sequence of str
        Files of this room to put into the page, besides ``look.css``; a script with all that it imports.
    allow : mapping of str to str, optional
        Additions to the page's Content-Security-Policy, by directive: ``{"connect-src": "'self'"}`` for a page that
        a server delivers.

    Returns
    -------
    str
        The page. Its Content-Security-Policy allows the scripts and styles in it, and no other; images and sound only
        as ``data:`` URLs.
    """
    style = "\n".join(map(text_of, (STYLESHEET, *styles)))
    script = "\n".join(map(bundled_script, scripts))
    policy = _POLICY | {"style-src": _hash(style), "script-src": _hash(script) if script else "'none'"}
    for directive, more in (allow or {}).items():
        policy[directive] = f"{policy.get(directive, '')} {more}".strip()
    joined = "; ".join(f"{directive} {sources}" for directive, sources in policy.items())
    page = {"title": title, "language": "en", "policy": joined, "style": Markup(style), "script": Markup(script)}
    return environment().get_template(template).render(values, page=page)


def data_url(content: bytes, kind: str) -> str:
    """Return content as a ``data:`` URL of a media type, such as ``image/png``."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def bundled_script(name: str) -> str:
    """Return a module of JavaScript of this room, after all that it imports, as one script.

    A page that is opened from a disk can load no modules. Each becomes a function that returns what it exports.
    """
    parts: dict[str, str] = {}
    _add_module(name, parts)
    return "\n".join(parts.values())


def _add_module(name: str, parts: dict[str, str]) -> None:
    """Add a module behind those that it imports; its name is the path from this room."""

    def imported(match: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2]))
        if other not in parts:
            _add_module(other, parts)
        return f"const {match[1].replace(' as ', ': ').removeprefix('*: ')} = {_variable(other)};"

    text = _IMPORT.sub(imported, text_of(name))
    exported = ", ".join(_EXPORT.findall(text))
    text = _EXPORT.sub(lambda match: match[0].removeprefix("export "), text)
    parts[name] = f"const {_variable(name)} = (() => {{\n{text}\nreturn {{ {exported} }};\n}})();"


def _variable(name: str) -> str:
    return "module_" + re.sub(r"\W", "_", name.removesuffix(".js"))


@cache
def text_of(name: str) -> str:
    """Return a file of this room, as text."""
    return (HERE / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """Return the source expression that allows an inline style or script with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"


def render_text(template: str, values: Mapping[str, Any]) -> str:
    """Return a text from a template, in which nothing is escaped."""
    return environment(escapes=False).get_template(template).render(values) + "\n"


@cache
def environment(escapes: bool = True) -> jinja2.Environment:
    """Return what loads templates, and whether it escapes what they show."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=escapes,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["plural"] = plural
    made.filters["line"] = lambda text: printable(str(text))  # names of files may have line ends
    return made
