"""Write a page on how a model does on a split: scores, confusions, utterances with their sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.edits import Edit, align
from speechctc.pages import timeline
from speechctc.pages.charts import reliability_bins
from speechctc.pages.page import render_page
from speechctc.stages import report_examples, report_tables
from speechctc.stages.evaluate import Evaluation
from speechctc.stages.report_examples import Example
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance
from speechctc.stages.studio_command import studio_command

FILE = "report.html"
EXAMPLES = 10  # of the worst, of the typical and of the best utterances
TITLES = {
    "worst": "The worst utterances",
    "typical": "Typical utterances, with error rates next to that of all",
    "best": "The best utterances",
}


def report_file(folder: Path) -> Path:
    """Return the page of a folder of reports."""
    return folder / FILE


def write_report(
    scored: ScoredSplit,
    evaluation: Evaluation,
    recogniser: Recogniser,
    model: str,
    examples: int,
    reporter: Reporter,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    scored : ScoredSplit
        At least one utterance of it was decoded.
    evaluation : Evaluation
        Its scores.
    recogniser : Recogniser
        The model that decoded it; it also places references in time that have no times.
    model : str
        The model, in words.
    examples : int
        How many of the worst, of the typical and of the best utterances to show with their sound.
    reporter : Reporter
        Receives the errors of recordings that can no longer be read.
    """
    counts = report_tables.confusions(scored)
    ranked = sorted(scored.results, key=lambda result: (-result.counts.per, result.utterance.id))
    shown = _examples(scored, recogniser, examples, reporter)
    values: dict[str, Any] = {
        "model": model,
        "evaluation": evaluation,
        "groups": report_tables.groups(scored),
        "matrix": report_tables.confusion_matrix(counts),
        "pairs": report_tables.worst_pairs(counts),
        "features": report_tables.feature_matrices(counts),
        "deletions": report_tables.contexts(counts.deletion_contexts),
        "insertions": report_tables.contexts(counts.insertion_contexts),
        "bins": reliability_bins(scored.confidences, scored.right),
        "examples": shown,
        "titles": TITLES,
        "with_sound": {example.result.number for part in shown.values() for example in part},
        "utterances": ranked,
        "studio_command": studio_command,
        "marked": lambda result: marked(result, scored),
    }
    title = f"How well the model does on {evaluation.split}: {evaluation.counts.per:.1f} % PER"
    return render_page("report.html", title, values, [timeline.STYLE, "report.css"], [timeline.SCRIPT])


def _examples(scored: ScoredSplit, recogniser: Recogniser, most: int, reporter: Reporter) -> dict[str, list[Example]]:
    """Return the utterances to show, by the reason to show them."""
    chosen = report_examples.choose(scored, most)
    shown: dict[str, list[Example]] = {}
    with reporter.progress("drawing", sum(map(len, chosen.values()))) as advance:
        for reason, results in chosen.items():
            shown[reason] = []
            for example in report_examples.show(results, recogniser, scored.folding):
                if isinstance(example, InputError):
                    reporter.warn(str(example))
                else:
                    shown[reason].append(example)
                advance(1)
    return shown


def marked(result: ScoredUtterance, scored: ScoredSplit) -> list[tuple[str, str, str]]:
    """Return the alignment of an utterance: the kind of each edit, the labelled phone and the recognised one."""
    ours, theirs = result.utterance.phones, result.phones

    def both(edit: Edit) -> tuple[str, str, str]:
        first = ours[edit.reference] if edit.reference is not None else ""
        return edit.kind, first, theirs[edit.hypothesis] if edit.hypothesis is not None else ""

    return [both(edit) for edit in align(ours, theirs, scored.folding)]
