"""The graphs of transcripts, against an enumeration of all paths; and how transcripts are read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from speechctc.core.errors import InputError
from speechctc.ctc.graph import graph_viterbi
from speechctc.inference.transcript import (
    AnyStretch,
    Choice,
    CompiledTranscript,
    Costs,
    Item,
    Kind,
    Unit,
    compile_transcript,
    parse_phones,
    parse_words,
    phone_units,
)

PHONES = "abs"
STRETCH = len(PHONES) + 1
COSTS = Costs(0.4, np.full(9, 0.5), np.full(9, 0.3), np.full(9, 0.2))


def encode(phones: Sequence[str]) -> list[int]:
    return [PHONES.index(phone) + 1 for phone in phones]


def cost(
    items: tuple[Item, ...],
    tokens: Sequence[int],
    at: int,
    costs: Costs | None,
    silences: Sequence[int],
    gap: bool = False,
    before: Item | None = None,
) -> float:
    """Return the least cost at which tokens (runs of a class) from a position on are this transcript; inf if never."""

    def then(rest: tuple[Item, ...], at: int, gap: bool = False, before: Item | None = before) -> float:
        return cost(rest, tokens, at, costs, silences, gap, before)

    ways = [0.0 if at == len(tokens) and not items else math.inf]
    if at < len(tokens) and (tokens[at] == 0 or tokens[at] in silences):
        ways.append(then(items, at + 1))
    if at < len(tokens) and tokens[at] == STRETCH and costs:
        ways.append(costs.extra + then(items, at + 1))
    for item in items[:1]:
        rest = items[1:]
        if isinstance(item, Choice):
            ways += [then(option + rest, at, gap) for option in item.options]
        elif isinstance(item, AnyStretch):
            ways.append(then(rest, at, gap))
            if tokens[at : at + 1] == [STRETCH]:
                ways.append(then(rest, at + 1))
        else:
            for phones in item.pronunciations:
                ways += [then(rest, end, False, item) for end in ends(encode(phones), tokens, at)]
            if costs and (at == 0 or tokens[at - 1] in (0, STRETCH)):
                least = costs.missing[0] + (0 if gap else costs.gap[0])
                least = min(least, costs.repeat[0]) if item == before and item.text == "word" else least
                ways.append(least + then(rest, at, True, item))
    return min(ways)


def ends(labels: list[int], tokens: Sequence[int], at: int) -> list[int]:
    """Return where a word ends that begins at a token; a blank may lie between two phones."""
    if tokens[at : at + 1] != labels[:1]:
        return []
    if len(labels) == 1:
        return [at + 1]
    blank = int(tokens[at + 1 : at + 2] == [0])
    return ends(labels[1:], tokens, at + 1 + blank)


def best_of_all(
    items: tuple[Item, ...], rows: NDArray[np.float32], costs: Costs | None, silences: Sequence[int]
) -> float:
    scores = [-math.inf]
    for classes in itertools.product(range(rows.shape[1]), repeat=len(rows)):
        tokens = [label for label, _ in itertools.groupby(classes)]
        scores.append(float(rows[range(len(rows)), list(classes)].sum()) - cost(items, tokens, 0, costs, silences))
    return max(scores)


def word(*variants: str) -> Unit:
    return Unit("word", tuple(map(tuple, variants)))


def columns_of(rows: NDArray[np.float32]) -> Callable[[int, int], NDArray[np.float32]]:
    """Return emissions in which a blank inside a unit, or between two phones, costs what it costs elsewhere."""
    whole = np.column_stack([rows, rows[:, 0], rows[:, 0]])
    return lambda a, b: whole[a:b]


TRANSCRIPTS: dict[str, tuple[Item, ...]] = {
    "nothing": (),
    "one": phone_units("a"),
    "repeated": phone_units("aab"),
    "doubled": (word("ab"), word("ab"), word("ab"), word("b")),
    "variants": (word("ab", "b"), word("ba", "a")),
    "alternatives": parse_phones(["(a|b", "a|)b"], PHONES),
    "optional in a row": parse_phones("( a | ) ( b | ) ( a | ) b".split(), PHONES),
    "nested": parse_phones("( ( a | b ) s | ) a".split(), PHONES),
    "stretches": parse_phones("* a * * b".split(), PHONES),
    "optional stretch": parse_phones("a ( * | b ) a".split(), PHONES),
}


@pytest.mark.parametrize("costs", [None, COSTS], ids=["exact", "costs"])
@pytest.mark.parametrize("silences", [(), (3,)], ids=["", "silence"])
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_best_of_all_paths(name: str, silences: tuple[int, ...], costs: Costs | None) -> None:
    items = TRANSCRIPTS[name]
    graph = compile_transcript(items, encode, STRETCH, costs, silences).graph
    rng = np.random.default_rng(len(name))
    for frames in (1, 4):
        rows = rng.normal(size=(frames, STRETCH + 1)).astype(np.float32)
        found = graph_viterbi(graph, columns_of(rows), frames).score
        assert found == pytest.approx(best_of_all(items, rows, costs, silences), abs=1e-5)


def path_through(compiled: CompiledTranscript, classes: list[int]) -> tuple[list[str], list[int]]:
    """Align classes that are certain; return the kind of each frame, and the numbers of the units left out."""
    rows = np.full((len(classes), STRETCH + 1), -20, np.float32)
    rows[range(len(classes)), classes] = 0
    rows[:, STRETCH] = -1
    path = graph_viterbi(compiled.graph, columns_of(rows), len(rows))
    left_out = [int(compiled.left_out[arc]) for _, arc in path.jumps if compiled.left_out[arc] >= 0]
    return [Kind(k).name for k in compiled.kind[path.states]], left_out


def test_states_say_what_they_stand_for() -> None:
    compiled = compile_transcript((word("ab"), word("s", "b"), word("aa")), encode, STRETCH, COSTS)
    kinds, left_out = path_through(compiled, [1, 2, 0, 1, 0, 1])
    assert kinds == ["phone", "phone", "blank", "phone", "blank", "phone"] and left_out == [1]
    kinds, left_out = path_through(compiled, [3, 3, 1, 2, 0, 2, 1, 0, 1, 3])
    assert (
        kinds == [*["extra"] * 2, *["phone"] * 2, "blank", *["phone"] * 2, "blank", "phone", "extra"] and not left_out
    )
    assert [len(unit.pronunciations) for unit in compiled.units] == [1, 2, 1]
    spine = compiled.spine
    assert compiled.unit[spine].tolist() == [0, 0, 1, 2, 2] and compiled.place[spine].tolist() == [0, 1, 0, 0, 1]
    assert (np.diff(spine) > 0).all()


def test_signs_that_are_phones_of_the_model_are_phones() -> None:
    assert parse_phones(["*", "(", "a"], {"*", "(", "a"}) == phone_units(["*", "(", "a"])
    assert parse_phones(["*a"], {"*a"}) == phone_units(["*a"])
    assert parse_phones(["t*"], {"a"}) == phone_units(["t*"])  # unknown, and named where it is encoded


def test_words_are_read_in_pieces() -> None:
    seen = []

    def read(text: str) -> list[Unit]:
        seen.append(text)
        return [Unit(each, (tuple(each),)) for each in text.split()]

    items = parse_words("I am (going to|gonna) * go", read)
    assert seen == ["I am", "going to", "gonna", "go"] and items[3] == AnyStretch()
    assert isinstance(items[2], Choice) and [len(option) for option in items[2].options] == [2, 1]


@pytest.mark.parametrize(("text", "said"), [("a ( b", "without a )"), ("a ) b", "without a ("), ("a | b", "outside")])
def test_signs_without_a_counterpart(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(").replace(")", r"\)")):
        parse_phones(text.split(), PHONES)


def test_too_many_ways_are_refused() -> None:
    with pytest.raises(InputError, match="ways meet"):
        compile_transcript(parse_phones(["(a|b|)"] * 200, PHONES), encode, STRETCH)
