"""A folder that nobody has described, looked at and turned into a config, by the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.eaf_writer import eaf_text
from speechctc.audio.recordings import find_recordings
from speechctc.config.load import load_config
from speechctc.core import written
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import SPLITS
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.survey import survey
from speechctc.corpora.tier_choice import PhoneTier, phone_tier
from speechctc.phones.inventory import TIMIT61
from speechctc.stages import machine
from speechctc.stages.extract import extract
from speechctc.stages.start import advise, fitting_model, start
from speechctc.training.batches import Batch
from speechctc.training.train_step import TrainStep
from tests.command import Command
from tests.tones import write_table

RATE = 8000


def record(folder: Path, name: str, labels: str = "a b ʃ", words: str = "two words", tier: str = "seg") -> Path:
    """Write a recording of 0.1 s a label, and its TextGrid with a tier of words and one of phones."""
    path = folder / f"{name}.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    phones = labels.split()
    seconds = 0.1 * len(phones)
    soundfile.write(path, np.zeros(int(seconds * RATE) + 1, np.float32), RATE)
    half = seconds / 2
    tiers = {
        "words": [Interval(k * half, (k + 1) * half, word) for k, word in enumerate(words.split())],
        tier: [Interval(0.1 * k, 0.1 * (k + 1), phone) for k, phone in enumerate(phones)],
    }
    path.with_suffix(".TextGrid").write_text(textgrid_text(seconds, tiers), encoding="utf-8")
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_textgrids_become_a_config_that_extraction_reads(here: Path) -> None:
    folder = Path("Ñandú und Strauß")
    for speaker in "AB":
        for number in range(4):
            record(folder, f"{speaker}/r{number}", "a g ʃ a")
    record(folder, "B/r9", "a ɡ")
    (folder / "A" / "alone.wav").write_bytes((folder / "A" / "r0.wav").read_bytes())
    (folder / "B" / "torn.wav").write_bytes(b"RIFF")
    before = everything(folder)
    made = start(folder)
    assert everything(folder) == before
    said = made.to_text()
    for part in ("9 recordings", "4 different ones in 34 labels", "hardly learned: ɡ", "cannot be used: 2"):
        assert part in said, (part, said)
    assert made.config == Path("Ñandú-und-Strauß.yaml") and made.config.is_file()
    config = load_config(made.config)
    assert (config.corpus.tier, config.train.init_from, config.corpus.dev_share) == ("seg", Path("ipa"), 0.3)
    assert len(read_corpus(config.corpus).splits["train"]) in (4, 5)
    assert [shlex.split(command)[:4] for command in made.commands[:2]] == [
        ["speechctc", "extract", "--config", str(made.config)],
        ["speechctc", "train", "--config", str(made.config)],
    ]
    assert shlex.split(made.commands[2])[2:] == ["--model", str(config.run), "--split", "dev"]


HUNGARIAN = "a aː b c d e eː f h i iː j k l m n o oː p r s t u uː v x y yː z ø øː ŋ œ ɛ ɡ ɟ ɲ ʃ ʒ".split()


@pytest.mark.parametrize(("phones", "fits"), [(TIMIT61, "english"), (HUNGARIAN, "ipa")])
def test_the_bundled_model_that_knows_most_of_the_phones_is_proposed(phones: Sequence[str], fits: str) -> None:
    chosen, why = fitting_model(phones)
    assert chosen == fits and re.search(r"of \d+ phones without their marks it knows \d+; ", why)


def test_a_config_is_never_overwritten(here: Path) -> None:
    record(Path("mine"), "a/x")
    record(Path("mine"), "b/y")
    Path("mine.yaml").write_text("the user's")
    Path("runs/mine-2").mkdir(parents=True)
    assert start(Path("mine")).config == Path("mine-3.yaml")
    assert Path("mine.yaml").read_text() == "the user's"
    with pytest.raises(InputError, match="not overwritten"):
        start(Path("mine"), Path("mine.yaml"))
    made = start(Path("mine"), Path("sub/own name.yaml"))
    assert made.config is not None and load_config(made.config).run == Path("runs/own name")
    assert "'sub/own name.yaml'" in made.commands[0]


def test_tables_give_their_splits_and_find_their_recordings(here: Path) -> None:
    table = write_table(here / "corpus", 12, 0)
    (here / "corpus" / "lists").mkdir()
    table.rename(here / "corpus" / "lists" / "train_v2.jsonl")
    write_table(here / "corpus", 4, 1).rename(here / "corpus" / "lists" / "my-test.jsonl")
    (here / "corpus" / "notes.csv").write_text("day,weather\n1,sun\n")
    made = start(Path("corpus"))
    assert made.config is not None
    corpus = load_config(made.config).corpus
    assert corpus.tables.train == Path("corpus/lists/train_v2.jsonl") and corpus.root == Path("corpus")
    assert corpus.tables.dev is None and len(read_corpus(corpus).splits["test"]) == 4
    assert "notes.csv" in made.description and "no column" in made.description
    assert made.commands[2].endswith("--split test")


@pytest.mark.shared
def test_timit_is_known_by_its_layout(shared_data: Path, here: Path) -> None:
    made = start(shared_data / "timit-sample")
    assert made.config is not None and "in the layout of TIMIT" in made.description
    config = load_config(made.config)
    assert (config.corpus.kind, config.corpus.phones, config.score.fold) == ("timit", "timit61", "auto")
    assert len(read_corpus(config.corpus).splits["train"]) > 50


def test_recordings_alone_lead_to_the_bundled_model(here: Path) -> None:
    record(Path("two words"), "x").with_suffix(".TextGrid").unlink()
    made = start(Path("two words"))
    assert made.config is None and not list(here.glob("*.yaml"))
    assert made.commands[0] == "speechctc decode 'two words' --model english --format textgrid --out 'two words'"
    assert "correct" in made.to_text() and "recordings without labels" in made.description


@pytest.mark.parametrize("what", ["nothing", "missing", "file", "text"])
def test_nothing_usable_is_one_line(speechctc: Command, what: str, here: Path) -> None:
    if what == "file":
        Path(what).write_text("x")
    elif what != "missing":
        Path(what).mkdir()
    if what == "text":
        Path("text/a.TextGrid").write_text("no recording")
        Path("text/b.csv").write_text("a,b\n1,2\n")
    status, out, err = speechctc("start", what)
    assert status == 2 and out == "" and err.startswith(f"speechctc: {what}: ") and err.count("\n") == 1


def test_what_start_prints_can_be_typed(speechctc: Command, here: Path) -> None:
    """Extraction; the bundled model's net would take too long to train here."""
    write_table(here / "my corpus", 8, 0)
    program, *extract = shlex.split(start(Path("my corpus")).commands[0])
    done = speechctc(*extract)
    assert program == "speechctc" and done.status == 0, done.err
    assert "train: 6 utterances" in done.out and "dev: 2 utterances" in done.out


def test_start_says_how_long_training_takes_by_steps_of_it(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are made to take 2 s each, on batches of at most 8 utterances: 14 of 1 s, of which dev takes 2."""
    now, batches = iter(range(0, 100, 2)), list[Batch]()

    def step(self: TrainStep, batches_: Sequence[Batch], *_: object) -> torch.Tensor:
        batches.extend(batches_)
        return torch.zeros(())

    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    monkeypatch.setattr(TrainStep, "step", step)
    for number in range(14):
        record(Path("new"), f"r{number}", "a b ʃ a b ʃ a b ʃ a")
    said = speechctc("start", "new")
    assert said.status == 0, said.err
    epoch = re.search(r"an epoch is about (\d+) s .* 60 epochs: (\d+) minutes", said.out)
    assert epoch and [*map(int, epoch.groups())] == [3, 3]  # 12 / 8 of 2 s, 60 times
    assert {tuple(batch.static.shape[:2]) for batch in batches} == {(8, 100)}
    assert all(batch.labels.min() >= 1 and batch.labels.max() <= 3 for batch in batches)


def test_a_step_that_fails_leaves_the_config_and_the_commands(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(self: TrainStep, *_: object) -> torch.Tensor:
        raise RuntimeError("not enough memory:\nyou tried to allocate 8 TiB")

    monkeypatch.setattr(TrainStep, "step", step)
    for number in range(14):
        record(Path("new"), f"r{number}", "a b ʃ a b ʃ a b ʃ a")
    said = speechctc("start", "new")
    assert said.status == 0 and Path("new.yaml").exists(), said.err
    assert "a step of it failed here: not enough memory" in said.out and "speechctc train --config new.yaml" in said.out


def test_advice_follows_the_amount_and_the_speakers() -> None:
    assert advise(5, 12).dev_share == 0.25  # three speakers
    assert advise(5, None).dev_share == 0.2
    assert advise(300, 100).dev_share == 0.1
    assert advise(5, 2).dev_share == 0.3
    assert advise(5, 9).minutes < advise(30, 9).minutes < advise(200, 9).minutes


def words_table(folder: Path, words: list[str]) -> Path:
    """Write recordings, and a table with their words."""
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    rows = [["id", "speaker", "audio", "words"]]
    for k, text in enumerate(words):
        soundfile.write(folder / "audio" / f"{k}.wav", np.zeros(RATE * 2, np.float32), RATE)
        rows.append([f"{folder.name}{k}", f"s{k}", f"audio/{k}.wav", text])
    path = folder / "utterances.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


POLISH = ["To jest mój dom.", "Mam dwa koty i psa.", "Gdzie jest stacja?", "Gdzie jest mój dom?"]


def test_transcripts_that_are_not_read_are_named(here: Path) -> None:
    record(Path("rec"), "84/r0").with_suffix(".TextGrid").unlink()
    Path("rec/84/r0.lab").write_text("84-1-0000 TWO WORDS\n", encoding="utf-8")
    made = start(Path("rec"))
    assert made.config is None and "not used: 1 .lab (rec/84/r0.lab): transcripts" in made.description
    assert made.commands == ("speechctc decode rec --model english --format textgrid --out rec", "speechctc start rec")


@pytest.mark.parametrize(
    ("name", "line"),
    [("transcripts.txt", "r{}\twords"), ("etc/txt.done.data", '( r{} "words" )'), ("PROMPTS", "84/mfc/r{} WORDS")],
)
def test_lists_of_transcripts_that_are_not_read_are_named(here: Path, name: str, line: str) -> None:
    for k in range(3):
        record(Path("rec"), f"84/r{k}").with_suffix(".TextGrid").unlink()
    path = Path("rec", name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line.format(k) + "\n" for k in range(3)))
    Path("rec/README.txt").write_text("These are\nrecordings\nof words\n")
    made = start(Path("rec"))
    assert made.config is None and f"({path}): transcripts" in made.description


def test_textgrids_are_read_once_to_choose_a_tier(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(4):
        record(Path("rec"), f"wav/r{k}")
    Path("rec/metadata.csv").write_text("".join(f"r{k}|Two words.|two words\n" for k in range(4)))
    calls = list[int]()

    def counted(files: Sequence[Path]) -> PhoneTier:
        calls.append(len(files))
        return phone_tier(files)

    monkeypatch.setattr("speechctc.corpora.survey.phone_tier", counted)
    assert survey(Path("rec")).config is not None and calls == [4]


@pytest.mark.parametrize("form", ["list", "texts"])
def test_phones_of_textgrids_are_before_words_of_no_known_language(here: Path, form: str) -> None:
    for k in range(4):
        record(Path("rec"), f"wav/r{k}")
        Path("rec/txt").mkdir(exist_ok=True)
        Path(f"rec/txt/r{k}.txt").write_text("two words\n") if form == "texts" else None
    if form == "list":
        Path("rec/metadata.csv").write_text("".join(f"r{k}|Two words.|two words\n" for k in range(4)))
    made = start(Path("rec"))
    assert made.config is not None and load_config(made.config).corpus.kind == "textgrid"
    assert "words of no known language, and the TextGrids beside the recordings have phones" in made.description
    words = start(Path("rec"), Path("words.yaml"), settings=["corpus.language=en-us"])
    assert words.config is not None and load_config(words.config).corpus.kind == "table"
    assert "not used: 4 TextGrids" in words.description


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("train", "dev", "test"), {"train": "train", "dev": "dev", "test": "test"}),
        (("train", "validation", "eval"), {"train": "train", "dev": "validation", "test": "eval"}),
        (("train", "eval", "test"), {"train": "train", "dev": "eval", "test": "test"}),
        (("train_nodev", "train_dev", "test"), {"train": "train_nodev", "dev": "train_dev", "test": "test"}),
        (("trainset", "devset", "testset"), {"train": "trainset", "dev": "devset", "test": "testset"}),
        (("contest", "interval", "latest"), {"train": "contest"}),
    ],
)
def test_names_of_tables_mean_splits_by_whole_words(here: Path, names: tuple[str, ...], splits: dict[str, str]) -> None:
    for name, count in zip(names, (3, 2, 1), strict=True):
        for k in range(count):
            record(Path("rec"), f"{name}/r{k}").with_suffix(".TextGrid").unlink()
        rows = [f"{name}-{k}\t{name}/r{k}.wav\ta b\n" for k in range(count)]
        Path("rec", f"{name}.tsv").write_text("id\taudio\tphones\n" + "".join(rows))
    config = survey(Path("rec")).config
    assert config is not None
    assert {split: path.stem for split in SPLITS for path in config.tables.of(split)} == splits


def test_the_language_of_words_can_be_given(here: Path) -> None:
    words_table(Path("recordings"), POLISH)
    assert start(Path("recordings")).config is None
    made = start(Path("recordings"), settings=["corpus.language=Polish"])
    assert made.config is not None
    assert {"m", "d", "k"} <= set(read_corpus(load_config(made.config).corpus).inventory().phones)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("corpus.langage=pl", "did you mean 'corpus.language'"),
        ("corpus.language=klingonish", "does not speak the language"),
        ("train.epochs=3", "not about the recordings"),
    ],
)
def test_a_setting_of_start_that_will_not_do_is_an_error(here: Path, setting: str, says: str) -> None:
    words_table(Path("recordings"), POLISH)
    with pytest.raises(InputError, match=says):
        start(Path("recordings"), settings=[setting])


def test_folders_of_languages_lose_no_utterance_to_dev(here: Path) -> None:
    """The config's share of dev and the report are of one corpus; no label of dev is unknown in training."""
    for k, language in enumerate("abcdefghijkl"):
        for number in range(3):
            record(Path("world"), f"{language}/r{number}", "a b ʃ" if k % 2 else f"a b ʃ {language}!")
    made = start(Path("world"))
    assert made.config is not None and "more recordings" not in made.description
    corpus = read_corpus(load_config(made.config).corpus)
    assert not any(corpus.rejected.values())
    held = {each.speaker for each in corpus.splits["dev"]}
    assert held <= set("bdfhjl") and f"dev: {len(held)} of 12 training speakers" in made.description


def test_tiers_of_two_names_in_different_files_are_both_read(here: Path) -> None:
    for number in range(4):
        record(Path("mine"), f"A/r{number}", "a b ʃ", tier="phones")
        record(Path("mine"), f"B/r{number}", "a b ʃ", tier="phone")
    made = start(Path("mine"))
    assert made.config is not None
    corpus = read_corpus(load_config(made.config).corpus)
    assert sum(map(len, corpus.splits.values())) == 8 and not any(corpus.rejected.values())


def test_what_decode_wrote_and_nobody_corrected_is_no_label(here: Path) -> None:
    for number in range(4):
        record(Path("mine"), f"A/r{number}", "a b ʃ", tier="phones")
    for name in ("as-it-was", "corrected", "aligned"):
        record(Path("mine"), f"B/{name}")
        path = Path("mine/B") / f"{name}.TextGrid"
        path.unlink()
        score = {"score": [Interval(0.0, 0.3, "-1")]} if name == "aligned" else {}
        tiers = {"phones": [Interval(0.0, 0.3, "x")], "confidence": [Interval(0.0, 0.3, "0.5")], **score}
        written.write_text(path, textgrid_text(0.3, tiers))
    corrected = Path("mine/B/corrected.TextGrid")
    corrected.write_text(corrected.read_text().replace('"x"', '"ʃ"'))
    made = start(Path("mine"))
    assert made.config is not None and made.description.count("as-it-was") == 1
    assert "nobody has corrected them" in made.description
    del tiers["score"]
    written.write_text(Path("elan/r.eaf"), eaf_text(tiers, Path("mine/A/r0.wav")))
    with pytest.raises(InputError, match="nobody has corrected it"):
        start(Path("elan"))
    config = load_config(made.config).corpus
    used = {each.audio.stem for split in read_corpus(config).splits.values() for each in split}
    assert {"corrected", "aligned"} <= used and "as-it-was" not in used
    everything = read_corpus(config.model_copy(update={"uncorrected": True}))
    assert sum(map(len, everything.splits.values())) == 7


IPA_WORDS = ["səkvɯ", "ʔut͡ɕʰiboɹa", "kəzɯ", "moɕi", "ʔita", "kəɕi"]


def ipa_table(
    folder: Path, count: int = 12, columns: str = "id\taudio\tphones", words: Sequence[str] = IPA_WORDS
) -> Path:
    """Write recordings, and a table with a word in IPA for each."""
    table = words_table(folder, [words[k % len(words)] for k in range(count)])
    rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    lines = [columns, *("\t".join((id, audio, text)) for id, _, audio, text in rows)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def test_strings_of_ipa_are_divided_into_phones(here: Path) -> None:
    ipa_table(Path("words"))
    made = start(Path("words"))
    assert made.config is not None and "the labels look like strings of IPA" in made.description
    assert "  segment: ipa         # labels are strings of IPA" in made.config.read_text(encoding="utf-8")
    corpus = read_corpus(load_config(made.config).corpus)
    assert {"s", "ə", "k", "v", "ɯ", "t͡ɕʰ"} <= set(corpus.inventory().phones)
    assert not any("strings of IPA" in warning for warning in corpus.warnings)
    asked = start(Path("words"), settings=["corpus.segment=labels"])
    assert asked.config is not None and load_config(asked.config).corpus.segment == "labels"
    assert "to divide them into phones: corpus.segment=ipa" in asked.description  # the warning of extraction


def test_labels_in_the_test_split_only_are_scored_and_not_written_over(here: Path) -> None:
    for k in range(2):
        record(Path("only"), f"test/A/r{k}", "ae b iy", tier="seg")
    made = start(Path("only"))
    scored = "speechctc evaluate --model english --split test corpus.kind=textgrid corpus.root=only corpus.tier=seg"
    assert made.commands == (scored,) and made.config is None
    assert start(Path("only"), settings=["corpus.tier=seg"]).commands[0].startswith(scored.partition(" corpus")[0])
    assert "All labelled recordings are in the test split" in made.to_text() and "decode" not in made.to_text()
    assert "without labels" not in made.to_text()


def test_no_command_is_printed_that_fails_for_want_of_dev(here: Path) -> None:
    for k, word in enumerate(("a b", "a c", "b c d", "e d")):
        record(Path("words"), f"{word[0]}{k}", f"{word} own{k}", tier="phones")
    made = start(Path("words"))
    assert "dev: none, because each utterance has a label that no other has" in made.description
    assert made.commands == (
        "speechctc start words",
        "speechctc evaluate --model ipa --split test corpus.kind=textgrid corpus.root=words",
    )
    assert made.config is None and not list(here.glob("*.yaml")) and "no label\nthat no other has" in made.to_text()


def test_a_table_that_cannot_be_read_is_to_be_mended(here: Path) -> None:
    ipa_table(Path("mine"), columns="Rhif\tFfeil\tTestun")
    made = start(Path("mine"))
    assert "name the columns in the first line: audio, and phones or words" in made.description
    assert made.commands == ("speechctc start mine",)
    assert "A table seems to have the labels" in made.to_text() and "decode" not in made.to_text()


def test_tables_and_copies_that_speechctc_made_are_not_read_in_place_of_the_labels(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path("mine")
    for k in range(4):
        record(mine, f"A/r{k}", "a b ʃ", tier="phones")
    monkeypatch.chdir(mine)
    made = start(Path())
    extract(load_config("mine.yaml"), Reporter(quiet=True))
    assert Path("data/features/mine/utterances.tsv").is_file()
    for name in ("x-studio/round-1", "runs/old"):
        record(Path(name), "corpus/train/copy", "n e w", tier="phones")
        for file in ("round.json",) if "round" in name else ("run.json", "config.yaml", "metrics.jsonl"):
            Path(name, file).write_text("{}\n")
    written.write_text(Path("heard.csv"), "file,start,end,phone,confidence\nA/r0,0,1,a,1\n")
    record(Path(), "A/r9", "a b ʃ", tier="phones")
    again = start(Path())
    assert "recordings with TextGrids\n  5 recordings" in again.description and made.config != again.config
    assert "not used" not in again.description and "speechctc made this folder" in again.description
    assert [each.name for each in find_recordings([Path("x-studio/round-1")])] == [Path("corpus/train/copy")]
    Path("mine.tsv").write_text("id\taudio\tphones\na\tA/r0.wav\ta b\nb\tA/r1.wav\ta b\n")
    assert "not used: 5 TextGrids of recordings; read by corpus.kind=textgrid" in start(Path()).description


def test_a_new_config_reads_labels_as_the_earlier_one_of_the_folder(here: Path) -> None:
    for name in ("a", "b", "c"):
        record(here / "talks", name)
    first = start(Path("talks")).config
    assert first is not None
    first.write_text(first.read_text().replace("  phones: found", "  tone: strip\n  ignore: [xx]\n  phones: found"))
    second = start(Path("talks"), settings=["corpus.ignore=[b]"])
    assert second.config is not None and "as in talks.yaml, which is of this folder: corpus.tone" in second.description
    corpus = load_config(second.config).corpus
    assert (corpus.tone, corpus.ignore) == ("strip", ("b",))
    record(here / "other" / "talks", "a")
    assert "as in" not in start(Path("other/talks")).description
