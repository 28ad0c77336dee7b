"""The modules of the page that recognises, run in node, against Python: the same numbers, phones and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import speechctc
from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval
from speechctc.audio.dereverberation import Dereverberated
from speechctc.audio.eaf import read_eaf
from speechctc.audio.resampling import resample
from speechctc.config.load import parse_config
from speechctc.core.tensor_file import save_tensors
from speechctc.features.padded import Moments, static_features
from speechctc.inference.formats import CSV, RecordingName
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Calibration, Segment
from speechctc.inference.streaming import SampleBlocks
from speechctc.lm.model import PhoneLM
from speechctc.lm.search import LmSearch
from speechctc.model.checkpoint import Checkpoint, fill_checkpoint
from speechctc.model.net import build_net
from speechctc.pages.timeline import SpectrogramSettings, levels_db
from speechctc.phones.inventory import inventory_of
from speechctc.stages.export import about_model
from tests.pages.node import floats, run_node
from tests.tiny_model import sing
from tests.tones import PHONES as TONES

PHONES = ("a", "b", "sil", "ts", "ɪ")
LOADED = """
const lm = given.lm ? read("lm.safetensors", Uint8Array) : null;
const model = new Model(given.about, read("weights.safetensors", Uint8Array), lm);
function* blocks(samples, size) {
  for (let at = 0; at < samples.length; at += size) yield samples.slice(at, at + size);
}
"""
BOTH = """
const samples = read("samples", Float32Array), seconds = samples.length / model.rate;
const rows = [...model.logPosteriors(blocks(samples, given.block), given.live)];
const joined = new Float32Array(rows.reduce((sum, each) => sum + each.length, 0));
let at = 0;
for (const each of rows) { joined.set(each, at); at += each.length; }
write("rows", joined);
return [...model.phonesOf(blocks(samples, given.block), () => seconds, 2, given.live)].flat();
"""


def random_model(folder: Path, lm_order: int = 0, **sections: Any) -> Recogniser:
    """Return a recogniser with random weights, whose files lie in a folder."""
    values = {"features": {"mels": 23}, "model": {"convs": [6, 6], "dense": [20, 20], "dropout": 0.0}}
    values |= {key: values.get(key, {}) | each for key, each in sections.items()}
    config = parse_config({"run": None, "corpus": {"kind": "demo"}, **values}, "tests")
    torch.manual_seed(3)
    inventory = inventory_of(PHONES)
    net = build_net(config, inventory)
    for parameter in net.parameters():  # biases and slopes that are not 0
        torch.nn.init.normal_(parameter, 0.05, 0.3 / max(parameter[0].numel(), 1) ** 0.5)
    torch.nn.init.normal_(net.output.weight, 0.0, 2.0)  # phones that change often
    rng = np.random.default_rng(4)
    moments = Moments.of(static_features(torch.from_numpy(0.1 * babble(rng, 16000)), config.features), config.features)
    lm = PhoneLM.learn([list(rng.integers(1, 6, 9)) for _ in range(40)], 6, lm_order) if lm_order else None
    checkpoint = Checkpoint.of(config, inventory, net, *moments.normalisation(), lm=lm)
    calibration = Calibration(slope=0.7, intercept=0.2, shift=0.004, phones=9)
    folder.mkdir(exist_ok=True)
    fill_checkpoint(folder, checkpoint)
    return Recogniser(checkpoint, "cpu", calibration)


def babble(rng: np.random.Generator, count: int) -> Any:
    """Return noise whose level and colour change, as those of speech do."""
    noise = np.convolve(rng.standard_normal(count + 9), rng.standard_normal(9), "same")
    corners = rng.uniform(0, 1, count // 2000 + 2) ** 3
    level = np.interp(np.arange(count), 2000 * np.arange(len(corners)), corners)
    return (0.1 * noise[:count] * level).astype(np.float32)


def heard(
    folder: Path, recogniser: Recogniser, samples: Any, block: int = 50000, live: bool = False
) -> tuple[Any, list[dict[str, Any]]]:
    """Return the log posteriors and the phones of a page's modules."""
    samples.astype(np.float32).tofile(folder / "samples")
    given = {"about": about_model(recogniser), "lm": (folder / "lm.safetensors").exists(), "block": block}
    given["live"] = live
    phones = run_node(folder, {"model": "Model"}, LOADED + BOTH, given)
    return floats(folder / "rows").reshape(-1, len(recogniser.phones) + 1), phones


def assert_alike(recogniser: Recogniser, samples: Any, rows: Any, phones: list[dict[str, Any]], most: float) -> None:
    """Check that posteriors are near, phones the same, and times within a frame."""
    rate = recogniser.config.features.sample_rate
    expected = recogniser.log_posteriors(samples, rate)
    assert rows.shape == expected.shape
    np.testing.assert_allclose(np.exp(rows), np.exp(expected), atol=most)
    result, frame = recogniser.decode(samples, rate, alternatives=2), recogniser.clock.step + 1e-9
    assert [each["phone"] for each in phones] == list(result.phones)
    for ours, theirs in zip(phones, result.segments, strict=True):
        assert abs(ours["start"] - theirs.start) <= frame and abs(ours["end"] - theirs.end) <= frame
        assert ours["confidence"] == pytest.approx(theirs.confidence, abs=1e-3)
        assert [other for other, _ in ours["alternatives"]] == [other for other, _ in theirs.alternatives]


@pytest.mark.parametrize(
    "sections",
    [
        {"model": {"activation": "relu", "norm": "layer", "time_stride": 2}},
        {"model": {"activation": "prelu", "dense_span": [1, 3], "residual": True, "norm": "layer", "kernel": [5, 3]}},
        {"model": {"activation": "silu", "pool": 1, "residual": True, "convs": [6]}, "features": {"window": "povey"}},
        {"model": {"pieces": 3, "time_stride": 3, "dense": []}, "features": {"deltas": 0, "energy": False}},
        {"model": {"dense_span": [3, 5]}, "features": {"cmn_window_ms": [900, 400], "window": "blackman", "deltas": 1}},
        {"features": {"sample_rate": 8000, "window": "hanning", "preemphasis": 0, "low_hz": 100, "high_hz": -200}},
        {"features": {"window": "rectangular", "delta_window": 3}, "decode": {"min_modulation_db": 0}},
        {"model": {"dense": [20, 20, 12], "context": 5, "context_span": 81, "time_stride": 2, "residual": True}},
        {"decode": {"search": "beam", "beam": 5}, "model": {"time_stride": 2}},
    ],
)
def test_any_net_gives_the_posteriors_and_phones_of_python(tmp_path: Path, sections: Any) -> None:
    recogniser = random_model(tmp_path / "model", **sections)
    rate = recogniser.config.features.sample_rate
    samples = babble(np.random.default_rng(5), 3 * rate)
    rows, phones = heard(tmp_path / "model", recogniser, samples)
    assert_alike(recogniser, samples, rows, phones, 1e-4)
    assert np.exp(rows).std(0).max() > 1e-3  # the net does not say the same of all frames


@pytest.mark.parametrize(("rate", "when", "seconds"), [(8000, "auto", 24), (22050, "always", 2), (8000, "never", 3)])
def test_a_room_is_taken_off_as_in_python(tmp_path: Path, rate: int, when: Any, seconds: int) -> None:
    rng = np.random.default_rng(9)
    tail = rng.standard_normal(rate) * 10 ** (-3 * np.arange(rate) / rate)
    dry = babble(rng, seconds * rate) + 1e-4 * rng.standard_normal(seconds * rate)
    wet = np.asarray(0.05 * np.convolve(dry, tail)[: seconds * rate], np.float32)
    wet.tofile(tmp_path / "samples")
    expected = Dereverberated(SampleBlocks(wet, rate, rate), rate, when)
    body = """
    const samples = read("samples", Float32Array), blocks = [samples.slice(0, 7), samples.slice(7)];
    const found = new Dereverberated(blocks, given.rate, given.when);
    write("clean", Float32Array.from([...found].flatMap((block) => [...block])));
    return found.changed;
    """
    changed = run_node(tmp_path, {"dereverberation": "Dereverberated"}, body, {"rate": rate, "when": when})
    clean = np.concatenate([*expected])
    assert changed == expected.changed == (when != "never")
    np.testing.assert_allclose(floats(tmp_path / "clean"), clean, atol=2e-3 * np.abs(clean).max())


def test_live_phones_are_those_of_python(tmp_path: Path) -> None:
    features, decode = {"cmn_window_ms": [900, 700]}, {"search": "beam", "beam": 5}
    model = {"dense": [20, 20], "context": 5, "context_span": 81, "time_stride": 2}
    recogniser = random_model(tmp_path / "model", 3, features=features, decode=decode, model=model)
    samples = babble(np.random.default_rng(8), 5 * 16000)
    rows, phones = heard(tmp_path / "model", recogniser, samples, 1000, live=True)
    stream = recogniser.stream(16000)
    expected = stream.push(samples) + stream.finish()
    assert [each["phone"] for each in phones] == [each.phone for each in expected] and len(phones) > 20
    np.testing.assert_allclose([each["end"] for each in phones], [each.end for each in expected], atol=0.021)


@pytest.mark.parametrize("count", [0, 100, 400, 401, 7000])
def test_recordings_of_awkward_lengths(tmp_path: Path, count: int) -> None:
    recogniser = random_model(tmp_path / "model", model={"time_stride": 2}, features={"cmn_window_ms": [500, 500]})
    samples = babble(np.random.default_rng(6), count)
    assert_alike(recogniser, samples, *heard(tmp_path / "model", recogniser, samples), 1e-4)


def test_a_long_recording_with_pauses_is_heard_in_blocks_as_in_python(tiny_model: Path, tmp_path: Path) -> None:
    recogniser = speechctc.load(tiny_model, "cpu")
    fill_checkpoint(tmp_path, replace(recogniser.checkpoint, state={}))
    rng = np.random.default_rng(7)
    songs = [sing([TONES[k] for k in rng.integers(len(TONES), size=9)], rng)[0] for _ in range(50)]
    rate = recogniser.config.features.sample_rate
    samples = np.concatenate([*songs[:20], np.zeros(9 * rate), *songs[20:]]).astype(np.float32)
    rows, phones = heard(tmp_path, recogniser, samples, block=77777)
    assert_alike(recogniser, samples, rows, phones, 1e-4)
    assert len(phones) > 300 and len(samples) > 50 * rate
    again, same = heard(tmp_path, recogniser, samples, block=10_000_000)
    np.testing.assert_allclose(again, rows, atol=1e-4)
    assert [each["phone"] for each in same] == [each["phone"] for each in phones]


@pytest.mark.parametrize(("order", "beam"), [(1, 3), (4, 64), (7, 16)])
def test_the_search_with_an_ngram_finds_the_path_of_python(tmp_path: Path, order: int, beam: int) -> None:
    rng = np.random.default_rng(order)
    recogniser = random_model(tmp_path / "model", lm_order=order)
    rows = np.log(rng.dirichlet(np.full(6, 0.3), 900)).astype(np.float32)
    rows.tofile(tmp_path / "model" / "posteriors")
    lm = recogniser.checkpoint.lm
    assert lm is not None and lm.ngram is not None
    if order == 4:  # of a model that knows how frequent its phones were in training
        lm = PhoneLM.of(lm.ngram.relative_to([1, 10, 100, 1000, 10000]))
        save_tensors(tmp_path / "model" / "lm.safetensors", lm.to_tensors())
    search = LmSearch(lm, 0.6, 0.4, beam, limit=40)
    expected = [*search.push(rows)[1].tolist(), *search.finish()[1].tolist()]
    body = """
    const ngram = new Ngram(readTensors(read("lm.safetensors", Uint8Array)));
    const search = new BeamSearch(ngram, 6, { weight: 0.6, bonus: 0.4, beam: given, limit: 40 });
    const rows = read("posteriors", Float32Array), path = [];
    for (let at = 0; at < rows.length; at += 6 * 101) path.push(...search.push(rows.slice(at, at + 6 * 101)).path);
    return [...path, ...search.finish().path];
    """
    imports = {"ngram": "Ngram", "search": "BeamSearch", "model": "readTensors"}
    assert run_node(tmp_path / "model", imports, body, beam) == expected


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("rows", "terms", "outputs"), [(1, 1, 1), (37, 45, 21), (130, 128, 64)])
def test_the_matrix_product(tmp_path: Path, rows: int, terms: int, outputs: int, fused: bool) -> None:
    rng = np.random.default_rng(rows)
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, terms), (outputs, terms), outputs))
    for name, values in (("a", a), ("b", b), ("bias", bias)):
        values.tofile(tmp_path / name)
    body = """
    if (given.fused && !WebAssembly.validate(moduleBytes(true))) return "old";
    const [a, b, bias] = ["a", "b", "bias"].map((name) => read(name, Float32Array));
    const matrices = new Matrices([moduleBytes(given.fused)]), { rows, terms, outputs } = given;
    const packed = matrices.pack(outputs, terms, (output, term) => b[output * terms + term], bias);
    const from = matrices.take((rows + 8) * packed.depth), to = matrices.take((rows + 8) * packed.columns);
    const all = matrices.view(from, rows * packed.depth);
    for (let k = 0; k < a.length; k += 1) all[Math.floor(k / terms) * packed.depth + (k % terms)] = a[k];
    matrices.product(from, packed.depth, packed, to, rows);
    write("c", matrices.view(to, rows * packed.columns).slice());
    return packed.columns;
    """
    given = {"rows": rows, "terms": terms, "outputs": outputs, "fused": fused}
    columns = run_node(tmp_path, {"matrix": "Matrices, moduleBytes"}, body, given)
    if columns == "old":
        pytest.skip("this node has no multiply-add of vectors")
    found = floats(tmp_path / "c").reshape(rows, columns)[:, :outputs]
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.T + bias, atol=1e-4)


@pytest.mark.parametrize("rate", [8000, 11025, 22254, 44100, 48000])
def test_resampling(tmp_path: Path, rate: int) -> None:
    samples = babble(np.random.default_rng(rate), rate + 12345)
    samples.tofile(tmp_path / "samples")
    body = """
    const samples = read("samples", Float32Array), parts = [];
    function* blocks() { for (let at = 0; at < samples.length; at += 7001) yield samples.slice(at, at + 7001); }
    for (const part of resampled(blocks(), given, 16000)) parts.push(...part);
    write("found", Float32Array.from(parts));
    return parts.length;
    """
    run_node(tmp_path, {"resample": "resampled"}, body, rate)
    expected = resample(samples, rate, 16000)
    np.testing.assert_allclose(floats(tmp_path / "found"), expected, atol=3e-5)


KINDS = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
FORMS = [("WAV", kind) for kind in KINDS] + [("WAVEX", kind) for kind in KINDS[1:]] + [("NIST", "PCM_16")]


@pytest.mark.parametrize(("form", "kind"), FORMS)
@pytest.mark.parametrize("channels", [1, 3])
def test_samples_of_files(tmp_path: Path, form: str, kind: str, channels: int) -> None:
    rng = np.random.default_rng(channels)
    written = rng.uniform(-0.9, 0.9, (3000, channels)).astype(np.float32)
    with soundfile.SoundFile(tmp_path / "a", "w", 22050, channels, kind, "LITTLE", form) as file:
        file.write(written)
    body = """
    const bytes = read("a", Uint8Array), source = { ...layout(bytes, bytes.length), blob: new Blob([bytes]) };
    const all = await bytesOf(source, 0, source.frames).arrayBuffer();
    write("found", mono(all, source));
    return [source.rate, source.frames];
    """
    assert run_node(tmp_path, {"samples": "layout, bytesOf, mono"}, body) == [22050, 3000]
    expected, _ = soundfile.read(tmp_path / "a", dtype="float32", always_2d=True)
    np.testing.assert_allclose(floats(tmp_path / "found"), expected.mean(1), atol=1e-6)


@pytest.mark.parametrize(
    ("form", "kind", "rate"), [("FLAC", "PCM_16", 44100), ("OGG", "VORBIS", 22050), ("OGG", "OPUS", 24000)]
)
def test_the_rate_of_compressed_files(tmp_path: Path, form: str, kind: str, rate: int) -> None:
    with soundfile.SoundFile(tmp_path / "a", "w", rate, 2, kind, format=form) as file:
        file.write(np.zeros((5000, 2)))
    body = 'return [compressedRate(read("a", Uint8Array)), layout(read("a", Uint8Array), 99999)];'
    assert run_node(tmp_path, {"samples": "compressedRate, layout"}, body) == [rate, None]


SEGMENTS = (
    Segment("a", 0.1, 0.2345678, 0.87654),
    Segment('t"s', 0.2345678, 0.23456781, 0.4),
    Segment("<&>,", 0.5, 0.9, 0.999),
    Segment("ɪ", 0.9, 1.2345, 0.03),
)


@pytest.mark.parametrize("segments", [SEGMENTS, SEGMENTS[2:], ()])
def test_files_are_those_of_decode(tmp_path: Path, segments: tuple[Segment, ...]) -> None:
    result, name = Recognition("a b,ü.wav", 1.2345, segments), RecordingName("a b,ü.wav", "a")
    body = "return [textgrid, csv, eaf].map((make) => make(given.segments, given.seconds, given.file));"
    given = {"segments": [each._asdict() for each in segments], "seconds": 1.2345, "file": "a b,ü.wav"}
    grid, table, document = run_node(tmp_path, {"formats": "textgrid, csv, eaf"}, body, given)
    assert grid == result.to_textgrid()
    assert table == CSV.whole(name, result)
    (tmp_path / "a.eaf").write_text(document, encoding="utf-8")
    tiers = {tier.name: [Interval(*each) for each in tier.entries] for tier in read_eaf(tmp_path / "a.eaf").tiers}
    for tier, labels in result.tiers().items():
        kept = [each for each in labels if round(1000 * each.end) > round(1000 * each.start)]
        assert [each.label for each in tiers[tier]] == [each.label for each in kept]
        assert [each.start for each in tiers[tier]] == pytest.approx([each.start for each in kept], abs=5.1e-4)


def test_the_spectrogram_is_that_of_the_pages_of_python(tmp_path: Path) -> None:
    samples, rate = babble(np.random.default_rng(8), 6000), 16000
    np.pad(samples, 80).astype(np.float32).tofile(tmp_path / "samples")
    body = 'write("found", levels(read("samples", Float32Array), 16000, 75)); return 0;'
    run_node(tmp_path, {"spectrogram": "levels"}, body)
    expected = levels_db(samples, rate, SpectrogramSettings(), 75, 120)
    np.testing.assert_allclose(floats(tmp_path / "found").reshape(120, 75), expected, atol=0.01)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["english", "ipa"])
def test_real_recordings_have_the_phones_of_python(shared_data: Path, tmp_path: Path, name: str) -> None:
    fill_checkpoint(tmp_path, speechctc.load(name, "cpu").checkpoint, small=True)
    recogniser = speechctc.load(tmp_path, "cpu")
    files = sorted((shared_data / "speechocean-adults" / "dev").rglob("*.flac"))[::40]
    files += sorted((shared_data / "timit-sample").rglob("SX*.WAV"))[::16]
    samples = np.concatenate([sound_file.read(file, 16000)[0] for file in files])
    rows, phones = heard(tmp_path, recogniser, samples)
    assert len(phones) > 150
    assert_alike(recogniser, samples, rows, phones, 1e-3)
