"""Runs modules of the pages in node, for tests against Python; they skip, with the reason, where node is absent."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.pages.page import HERE

_SCRIPT = """
import fs from "fs";
const read = (name, type) => {{
  const bytes = fs.readFileSync({folder} + name);
  return new type(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}};
const write = (name, {{ buffer, byteOffset, byteLength }}) =>
  fs.writeFileSync({folder} + name, new Uint8Array(buffer, byteOffset, byteLength));
const given = JSON.parse(fs.readFileSync({folder} + "given.json", "utf8"));
const answer = await (async () => {{ {body} }})();
console.log(JSON.stringify(answer ?? null));
"""


def run_node(folder: Path, imports: dict[str, str], body: str, given: Any = None) -> Any:
    """Return what a script returns, as JSON.

    Parameters
    ----------
    folder : Path
        For files that the script reads and writes: ``read(name, Float32Array)``, ``write(name, values)``.
    imports : dict of str to str
        By module of ``pages/web``, without ``.js``, what is imported from it: ``"Net, logitBlocks"``.
    body : str
        The script; ``given`` is what is given.
    """
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
    lines = [f'import {{ {names} }} from "{(HERE / "web" / name).as_uri()}.js";' for name, names in imports.items()]
    text = "\n".join(lines) + _SCRIPT.format(folder=json.dumps(f"{folder}/"), body=body)
    (folder / "script.mjs").write_text(text, encoding="utf-8")
    command = ["node", "--no-warnings", str(folder / "script.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)


def floats(path: Path) -> NDArray[np.float32]:
    """Return the numbers that a script wrote."""
    return np.fromfile(path, np.float32)
