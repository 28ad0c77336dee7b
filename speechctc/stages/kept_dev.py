"""Dev stays dev while a corpus grows: what was dev in the last run of the corpus is dev again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.errors import first_few, plural
from speechctc.core.files import short
from speechctc.core.latest_run import latest_run
from speechctc.corpora.corpus import Corpus
from speechctc.training.growth import RECORD, UTTERANCES, LastRun, changes, noted_run, read_marks


def last_run(config: Config) -> LastRun | None:
    """Return the last run on these features, or else ``runs/latest`` if its corpus is that of the config."""
    if (noted := noted_run(config.data.dir)) is not None or (latest := latest_run()) is None:
        return noted
    try:
        stored = files.read_json(latest / RECORD)["config"]["corpus"]
        mine = config.to_dict()["corpus"]
        if all(stored[key] == mine[key] for key in ("kind", "root", "tables")):
            return LastRun(str(latest), float(stored["dev_share"]), read_marks(latest / UTTERANCES)["dev"])
    except (OSError, LookupError, TypeError, ValueError):  # of a run that cannot be read nothing is known
        pass
    return None


def keep_dev(corpus: Corpus, last: LastRun, share: float) -> Corpus:
    """Return a corpus without a dev split of its own with the dev of the last run, and a note on that.

    Parameters
    ----------
    corpus : Corpus
    last : LastRun
    share : float
        ``corpus.dev_share``: where it is another now, another dev is wanted.
    """
    there = {each.id for split in ("train", "dev") for each in corpus.splits[split]}
    known = frozenset(last.dev) & there
    if not corpus.dev_from_train or not known or known == there or share != last.dev_share:
        return corpus
    what = f"the {plural(len(known), 'utterance')} of dev in {short(Path(last.run))}"
    kept = corpus.with_dev(known, f"dev: {what} again; another corpus.dev_share chooses anew")
    return replace(kept, warnings=(*kept.warnings, *_known_voices(corpus, kept)))


def _known_voices(chosen: Corpus, kept: Corpus) -> list[str]:
    """Return a warning where speakers of dev, who would be held out wholly, are trained on now."""
    held, trained = ({each.speaker for each in chosen.splits[split]} - {""} for split in ("dev", "train"))
    if not held or held & trained:  # dev is chosen by utterances
        return []
    voices = {each.speaker for each in kept.splits["dev"]} - {""}
    new = [each for each in kept.splits["train"] if each.speaker in voices]
    if not new:
        return []
    names = first_few(sorted({each.speaker for each in new}))
    return [f"{plural(len(new), 'utterance')} of speakers of dev ({names}) are trained on, so their voices are known"]


def compare_dev(splits: Mapping[str, Mapping[str, str]], last: LastRun) -> list[str]:
    """Return a warning that names the last run if its dev, of which some is in the corpus still, was another.

    Parameters
    ----------
    splits : mapping
        The marks of each split now.
    last : LastRun
    """
    dev = splits["dev"]
    there = set().union(*splits.values())
    if not (told := changes(last.dev, dev, features=False)) or there.isdisjoint(last.dev):
        return []
    run = short(Path(last.run))
    lines = [f"dev is not that of {run}: {told}; dev PERs of that run and of new ones are not comparable"]
    if seen := sorted(splits["train"].keys() & last.dev.keys()):
        what = f"of dev in {run} are trained on now ({first_few(seen, 3)})"
        lines.append(f"{plural(len(seen), 'utterance')} {what}; a model that training begins with was chosen by them")
    return lines
