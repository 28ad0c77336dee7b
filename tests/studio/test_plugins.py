"""The plugins, run as ELAN and Praat run them."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.errors import InputError
from speechctc.studio.plugins import ELAN, PRAAT, in_folder, in_programs, read_parameters, read_spans, write, write_tier
from tests.tiny_model import write_song

ROOT = Path(__file__).parent.parent.parent
SONG = ["low", "mid", "high", "low", "top"]
PARAM = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<PARAM xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
    'xsi:noNamespaceSchemaLocation="file:avatech-call.xsd">\n{}</PARAM>\n'
)


def parameters(values: dict[str, str]) -> bytes:
    lines = "".join(f'<param name="{name}">{value}</param>\n' for name, value in values.items())
    return PARAM.format(lines).encode()


def described(folder: Path) -> tuple[str, dict[str, str]]:
    """Read a .cmdi as ELAN does: the command for Linux, and the default of each parameter by its name."""
    (path,) = (folder / ELAN).glob("*.cmdi")
    found: dict[str, str] = {}
    command = ""
    for element in ElementTree.parse(path).iter():
        kind = element.tag.rpartition("}")[2]
        if kind == "recognizer":
            assert element.get("recognizerType") == "local" and element.get("runWin") and element.get("runMac")
            command = element.attrib["runLinux"]
        elif kind in ("input", "output", "textparam"):
            assert element.get("level") in ("basic", "advanced") and element.get("info") and element.text
            choices = element.get("convoc", "").split()
            assert not choices or element.get("default") in choices
            found[element.text.strip()] = element.get("default", "")
    return command, found


def run_recogniser(folder: Path, values: dict[str, str]) -> list[str]:
    """Run the command with ELAN's environment: hardly any variables; return its lines."""
    command, _ = described(folder)
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LC_ALL": "C", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command.split(),
        cwd=folder / ELAN,
        input=parameters(values),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )
    return done.stdout.decode("utf-8").splitlines()


@pytest.mark.slow
def test_elan_gets_tiers_of_phones(tmp_path: Path, tiny_model: Path) -> None:
    folder = tmp_path / "my plugins"
    write(in_folder(folder), str(tiny_model))
    _, defaults = described(folder)
    audio, out, symbols = tmp_path / "a ü & b.wav", tmp_path / "out.xml", tmp_path / "own.tsv"
    times = write_song(audio, SONG)
    symbols.write_text("low\tɡã\nhigh\t<&>\n", encoding="utf-8")
    escaped = str(audio).replace("&", "&amp;")
    lines = run_recogniser(folder, {**defaults, "source": escaped, "phones": str(out), "symbols": str(symbols)})
    assert lines[-1] == "RESULT: DONE.", lines
    progress = [float(line.split()[1]) for line in lines if line.startswith("PROGRESS:")]
    assert progress == sorted(progress) and 0 < progress[0] and progress[-1] <= 1
    root = ElementTree.parse(out).getroot()
    assert root.tag == "TIER" and root.attrib["columns"].split() == ["phones", "confidence"]
    spans = [(span.attrib, [value.text for value in span]) for span in root]
    assert [values[0] for _, values in spans] == ["ɡã", "mid", "<&>", "ɡã", "top"]
    assert all(abs(int(at["start"]) / 1000 - start) < 0.06 for (at, _), (start, _) in zip(spans, times, strict=True))


@pytest.mark.slow
def test_elan_gets_the_phones_of_a_tier_placed_and_scored(tmp_path: Path, tiny_model: Path) -> None:
    write(in_folder(tmp_path), str(tiny_model))
    _, defaults = described(tmp_path)
    audio, tier, out = tmp_path / "a.wav", tmp_path / "tier.xml", tmp_path / "out.xml"
    times = write_song(audio, SONG)
    middle = round(1000 * (times[2][0] - 0.02))
    spans = ((0, middle, "low mid"), (middle, round(1000 * times[-1][1]), "high low top"))
    tier.write_text(
        '<TIER columns="words">'
        + "".join(f'<span start="{a}" end="{b}"><v>{label}</v></span>' for a, b, label in spans)
        + "</TIER>"
    )
    given = {**defaults, "source": str(audio), "phones": str(out), "stretches": str(tier)}
    for task, columns in (
        ("place", ["phones", "confidence"]),
        ("score", ["phones", "score", "said_instead"]),
        ("recognise", ["phones", "confidence"]),
    ):
        lines = run_recogniser(tmp_path, {**given, "task": task})
        assert lines[-1] == "RESULT: DONE.", lines
        root = ElementTree.parse(out).getroot()
        assert root.attrib["columns"].split() == columns
        assert [span[0].text for span in root] == SONG and all(len(span) == len(columns) for span in root)
        assert all(0 <= float(span[1].text or "nan") <= 1 for span in root)
        starts = [int(span.attrib["start"]) / 1000 for span in root]
        assert all(abs(start - time[0]) < 0.06 for start, time in zip(starts, times, strict=True))
    for wrong, line in (
        (
            {"stretches": "", "task": "score"},
            "ERROR: ELAN gave no recording, no tier to write, or no tier of transcripts; choose them",
        ),
        ({"task": "place", "language": "xx"}, "ERROR: "),
    ):
        lines = run_recogniser(tmp_path, {**given, **wrong})
        assert lines[-1] == "RESULT: FAILED." and any(each.startswith(line) for each in lines), lines
        assert not any("Traceback" in each for each in lines)


def test_elan_is_told_why_it_failed(tmp_path: Path) -> None:
    write(in_folder(tmp_path), "english")
    lines = run_recogniser(tmp_path, {"source": "gone.wav", "phones": str(tmp_path / "out.xml"), "model": "english"})
    assert lines[-1] == "RESULT: FAILED." and "ERROR: gone.wav: no such file; check the path" in lines
    assert not any("Traceback" in line for line in lines) and not (tmp_path / "out.xml").exists()


def test_parameters_and_tiers_are_read_as_elan_writes_them(tmp_path: Path) -> None:
    assert read_parameters(parameters({"source": "C:\\a &amp; b.wav", "empty": ""})) == {
        "source": "C:\\a & b.wav",
        "empty": "",
    }
    assert read_parameters(PARAM.format('<param name="s">é.wav</param>').encode("cp1252"))["s"].endswith(".wav")
    for raw in (b"", b"<PARAM><param></PARAM>", b'<!DOCTYPE x [<!ENTITY a "b">]><PARAM>&a;</PARAM>'):
        with pytest.raises(InputError, match="standard input"):
            read_parameters(raw)
    tier = tmp_path / "in.xml"
    tier.write_text(
        '<TIER columns="a"><span start="17.5" end="18.25"><v>x</v></span><span start="900" end="1500"/></TIER>'
    )
    assert read_spans(tier) == [(0.9, 1.5, ""), (17.5, 18.25, "x")]
    write_tier(tier, [])
    assert read_spans(tier) == []
    for wrong in ("<TIER>", '<?xml version="1.0" encoding="klingon"?><TIER/>', '<TIER><span start="1"/></TIER>'):
        tier.write_text(wrong)
        with pytest.raises(InputError, match="not a tier of ELAN"):
            read_spans(tier)


def test_what_a_person_changed_in_a_plugin_is_kept(tmp_path: Path) -> None:
    write(in_folder(tmp_path), "english")
    write(in_folder(tmp_path), "english")
    changed = tmp_path / PRAAT / "recognise.praat"
    changed.write_text(changed.read_text() + "# mine\n")
    with pytest.raises(InputError, match=r"recognise.praat: exists and was made or changed by hand"):
        write(in_folder(tmp_path), "english")
    assert changed.read_text().endswith("# mine\n")


def test_paths_are_quoted_as_each_language_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/o'neil's \"py\"/python")
    write(in_folder(tmp_path), 'a "b" & <c>')
    shell = (tmp_path / ELAN / "speechctc.sh").read_text().splitlines()[-1]
    assert shlex.split(shell)[1] == "/o'neil's \"py\"/python"
    assert described(tmp_path)[1]["model"] == 'a "b" & <c>'
    assert '"/o\'neil\'s ""py""/python"' in (tmp_path / PRAAT / "procedures.praat").read_text()


@pytest.mark.skipif(os.name == "nt", reason="files have no modes there")
@pytest.mark.parametrize("ends", ["well", "badly"])
def test_praat_leaves_no_recording_where_others_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The Python that the plugin runs looks at the mode of the recording, and then answers, or fails."""
    pytest.importorskip("parselmouth")
    grid = tmp_path / "answer.TextGrid"
    grid.write_text(textgrid_text(1.0, {"phones": [Interval(0.1, 0.2, "low")]}))
    python = tmp_path / "python"
    answer = f'cp "{grid}" "$6"' if ends == "well" else "exit 3"
    python.write_text(
        f'#!/bin/sh\n[ -n "$6" ] || exec "{sys.executable}" "$@"\nls -l "$5" > "{tmp_path}/seen"\n{answer}\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    write(in_folder(tmp_path), "english")
    write_song(tmp_path / "a.wav", SONG)
    script = f'Read from file: "{tmp_path}/a.wav"\nrunScript: "{tmp_path}/{PRAAT}/recognise.praat", "english", "own"'
    code = f"import os, parselmouth\nos.umask(0o022)\nparselmouth.praat.run({script!r})"
    home = tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(home), "TMPDIR": str(home)}
    monkeypatch.undo()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (tmp_path / "seen").read_text().startswith("-rw------- "), done.stderr
    assert [path.name for path in home.iterdir() if "speechctc" in path.name] == []
    assert (done.returncode == 0) == (ends == "well") and ("without an answer" in done.stderr) == (ends == "badly")


def test_each_praat_and_elan_of_a_user_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the places that Praat's manual gives for versions 6 and 7, and the archives of ELAN."""
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert in_programs() == []
    for system, folders in {
        "linux": (".praat-dir", ".config/praat", "ELAN-7.0/lib/app/extensions"),
        "darwin": ("Library/Preferences/Praat Prefs", "Library/Application Support/Praat"),
        "win32": ("Praat", "AppData/Roaming/Praat"),
    }.items():
        for folder in folders:
            (tmp_path / folder).mkdir(parents=True)
        monkeypatch.setattr("sys.platform", system)
        names = (ELAN if "extensions" in folder else PRAAT for folder in folders)
        assert in_programs() == [tmp_path / folder / name for folder, name in zip(folders, names, strict=True)]
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (tmp_path / "settings/praat").mkdir(parents=True)
    assert in_programs()[1] == tmp_path / "settings/praat" / PRAAT
