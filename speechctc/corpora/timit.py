"""Reads a corpus in the layout of TIMIT, complete or in part.

A recording is for example ``TRAIN/DR1/FVMH0/SX206.WAV``, and its labels are in ``SX206.PHN``. Names are in any
letter case, and folders at any depth. Speakers in a folder ``DEV``, which the LDC's corpus does not have, are dev.
Without it, dev is the usual 50 speakers and test the 24 of the core test set, both from ``TEST``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.core.errors import InputError
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance
from speechctc.corpora.dev_split import choose_dev
from speechctc.corpora.timit_files import BadLabels, Files, find_files, read_labels
from speechctc.phones.folding import fold_labels

# Two men and one woman of each dialect region, as listed in the documentation of the corpus.
CORE_TEST = frozenset(
    "mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 "
    "mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0 fdhc0 mjln0 mpam0 fmld0".split()
)
# The development set in common use since Halberstadt (MIT, 1998).
DEV = frozenset(
    "faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 "
    "mglb0 mrtk0 mtaa0 mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 "
    "mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0 mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1".split()
)
TRAIN_SPEAKERS = 462
SENTENCES = 8  # of each speaker, without the two SA sentences
COMPLETE = {"train": 3696, "dev": 400, "test": 192}


def read_timit(root: Path, phone_set: str = "timit61", dev_share: float = 0.1, needed: str = "train") -> Corpus:
    """Read a corpus in TIMIT's layout, complete or in part.

    Parameters
    ----------
    root : Path
        A folder that contains TRAIN and TEST, at any depth.
    phone_set : str
        ``"timit61"``, or a set of Lee and Hon, to which the labels are folded.
    dev_share : float
        Share of the TRAIN speakers that become dev if none of the usual 50 is present.
    needed : str
        The split that must have recordings, if TRAIN has none.

    Returns
    -------
    Corpus
        Ids are region, speaker and sentence: ``"dr1-fvmh0-sx206"``; times are in seconds.

    Raises
    ------
    InputError
        There is no corpus, TRAIN is empty, or all speakers of TIMIT are present but not all sentences.
    """
    if not phone_set.startswith("timit"):
        raise InputError(f"corpus.phones={phone_set}: TIMIT's labels cannot be folded to that set", "set it to timit61")
    sides, notes = find_files(root)
    if not sides["train"] and (needed == "train" or not (sides["dev"] or sides["test"])):
        held = ", ".join(f"{len(files)} utterances in {side.upper()}" for side, files in sides.items() if files)
        raise InputError(f"{root}: no recordings with .PHN files in a TRAIN folder, only {held}", "add TRAIN")
    members, more = divide(sides, dev_share)
    utterances: dict[str, list[Utterance]] = {split: [] for split in SPLITS}
    rejected: dict[str, list[Rejected]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        for files in members[split]:
            try:
                utterances[split].append(_utterance(files, phone_set))
            except BadLabels as error:
                rejected[split].append(Rejected(files.id, str(error)))
    if not utterances["train"] and rejected["train"]:
        first = rejected["train"][0].reason
        raise InputError(
            f"{root}: none of TRAIN's {len(rejected['train'])} utterances can be used; {first}",
            "correct them",
        )
    return Corpus(
        {split: tuple(utterances[split]) for split in SPLITS},
        phone_set,
        {split: tuple(rejected[split]) for split in SPLITS},
        tuple(notes + more),
        dev_from_train=len(members["train"]) < len(sides["train"]),
    )


def divide(sides: dict[str, list[Files]], dev_share: float) -> tuple[dict[str, list[Files]], list[str]]:
    """Divide the utterances among the splits, and return notes on how.

    Raises
    ------
    InputError
        All speakers of TIMIT are present, but not all sentences.
    """
    if sides["dev"]:
        return sides, ["dev and test are the folders DEV and TEST of the corpus"]
    speakers = {side: {files.speaker for files in found} for side, found in sides.items()}
    dev, core = speakers["test"] & DEV, speakers["test"] & CORE_TEST
    test = core or speakers["test"] - dev
    members = {
        "train": sides["train"],
        "dev": [files for files in sides["test"] if files.speaker in dev],
        "test": [files for files in sides["test"] if files.speaker in test],
    }
    if len(speakers["train"]) == TRAIN_SPEAKERS and dev == DEV and core == CORE_TEST:
        _check_complete(members)
        return members, ["complete TIMIT: 3696 training, 400 dev (50 speakers), 192 core test utterances"]
    notes = [
        f"partial TIMIT: {len(speakers['train'])} of {TRAIN_SPEAKERS} training speakers; TEST has "
        f"{len(speakers['test'])} speakers, {len(dev)} of the usual 50 of dev and {len(core)} of the 24 of core test",
        "test: none, because there is no TEST folder"
        if not speakers["test"]
        else f"test: {'the core test speakers' if core else 'the speakers of TEST'} ({len(test)})",
    ]
    if left_out := len(speakers["test"] - dev - test):
        notes.append(f"{left_out} speakers of TEST are in neither set, and left out")
    if dev or not sides["train"]:
        notes.append(f"dev: the usual speakers that are present ({len(dev)})")
        return members, notes
    names = [Utterance(files.id, Path(), (), files.speaker) for files in sides["train"]]
    held, note = choose_dev(names, dev_share)
    members["train"] = [files for files in sides["train"] if files.id not in held]
    members["dev"] = [files for files in sides["train"] if files.id in held]
    return members, [*notes, note]


def _check_complete(members: dict[str, list[Files]]) -> None:
    for split, count in COMPLETE.items():
        whole = [files for files in members[split] if files.audio and files.phn]
        if len(whole) == count:
            continue
        by_speaker = Counter(files.speaker for files in whole)
        short = [name for name in sorted({files.speaker for files in members[split]}) if by_speaker[name] != SENTENCES]
        odd = ", ".join(f"{name} {by_speaker[name]}" for name in short[:5]) + (", ..." if len(short) > 5 else "")
        raise InputError(
            f"all speakers of TIMIT are present, but {len(whole)} {split} utterances instead of {count} ({odd} "
            f"instead of {SENTENCES})",
            "copy the corpus again; it is read in part only where whole speakers are missing",
        )


def _utterance(files: Files, phone_set: str) -> Utterance:
    """Read the labels of an utterance; times in seconds."""
    if files.audio is None:
        raise BadLabels(f"{files.phn}: no recording of that name beside it")
    if files.phn is None:
        raise BadLabels(f"{files.audio}: no .PHN file beside it")
    try:
        frames, rate, _ = sound_file.info(files.audio)
    except InputError as error:
        raise BadLabels(error.what) from None
    lines = read_labels(files.phn, frames, rate)
    phones, kept = fold_labels([line.label for line in lines], phone_set)
    times = tuple((lines[k].start / rate, lines[k].end / rate) for k in kept)
    return Utterance(files.id, files.audio, tuple(phones), files.speaker, times, traits=_traits(files))


def _traits(files: Files) -> tuple[tuple[str, str], ...]:
    """Return sex and dialect region, which are in the names of TIMIT's folders: ``dr1/fvmh0``."""
    region, _, _ = files.id.partition("-")
    sex = {"f": "female", "m": "male"}.get(files.speaker[:1])
    known = (("sex", sex), ("dialect", region if region.startswith("dr") else None))
    return tuple((name, value) for name, value in known if value)
