"""The process that tries inputs; the hunt starts it again where an input ends it.

Lines of JSON on standard output: how many inputs were tried, and what was found.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from random import Random
from types import CodeType, FrameType
from typing import Any

from tests.fuzzing.judge import Judge, Verdict
from tests.fuzzing.mutations import mutate, mutate_json, mutate_tensors
from tests.fuzzing.readers import READERS, Reader
from tests.fuzzing.seeds import Files

TRACED = 10  # of so many inputs one is run line by line, to see whether it reaches new lines
RARELY = 50  # the same, after so many inputs that most lines are reached
MOST_LINES = 5000  # inputs by which they are
KEPT = 400  # inputs that others are made from
SOON = 20  # inputs that may be like earlier ones
TOLD = 0.5  # seconds between reports
SHRINKING = 400  # tries to make a finding smaller


class Lines:
    """The lines of the package, and of the readers it builds on, that inputs have reached."""

    def __init__(self) -> None:
        self._seen: set[tuple[CodeType, int]] = set()
        self._lines: dict[CodeType, set[tuple[CodeType, int]]] = {}

    def watch(self, frame: FrameType, event: str, argument: object) -> Any:
        """Trace the lines of a function, if it is of these and not all of its lines are reached."""
        code, seen = frame.f_code, self._seen
        if "/speechctc/" not in code.co_filename and "/praatio/" not in code.co_filename:
            return None
        if code not in self._lines:
            self._lines[code] = {(code, number) for _, _, number in code.co_lines() if number is not None}
        seen.add((code, frame.f_lineno))
        if self._lines[code] <= seen:
            return None

        def line(frame: FrameType, event: str, argument: object) -> Any:
            seen.add((code, frame.f_lineno))
            return line

        return line

    def __len__(self) -> int:
        return len(self._seen)


class Hunter:
    """Makes inputs for a reader and tries them.

    Parameters
    ----------
    name : str
        Of the reader.
    seed : int
    """

    def __init__(self, name: str, seed: int, judge: Judge) -> None:
        self.name, self.seed, self.judge, self.reader = name, seed, judge, READERS[name]
        self.random = Random(f"{name} {seed}")
        self.pool: list[Files] = self.reader.seeds()
        self.tried = 0
        self.faults: set[str] = set()
        self._lines, self._outcomes, self._seen = Lines(), set[str](), set[int]()

    def begin(self) -> None:
        """Let it read every seed: that imports what it needs, and shows that seeds are valid."""
        for files in self.pool:
            verdict = self.judge.run(self.reader, files, first=True)
            assert verdict.outcome == "read", f"{self.name}: a seed is not read: {verdict}"

    def next(self) -> dict[str, Any] | None:
        """Try one more input; return what was found."""
        files = self._new()
        self.tried += 1
        traced = self.tried % (TRACED if self.tried < MOST_LINES else RARELY) == 0
        lines = len(self._lines)
        sys.settrace(self._lines.watch if traced else None)
        verdict = self.judge.run(self.reader, files)
        sys.settrace(None)
        if verdict.outcome not in self._outcomes or len(self._lines) > lines:
            self._outcomes.add(verdict.outcome)
            self.pool.append(files)
            if len(self.pool) > KEPT:
                del self.pool[self.random.randrange(len(self.pool) // 2)]
        if not verdict.fault or verdict.fault in self.faults:
            return None
        self.faults.add(verdict.fault)
        return as_record(self.name, self.seed, verdict, self._smaller(files, verdict.fault))

    def _new(self) -> Files:
        """Return an input that was not tried before, if one is found soon."""
        for _ in range(SOON):
            files = self._mutated()
            if (key := hash(frozenset(files.items()))) not in self._seen:
                break
        self._seen.add(key)
        return files

    def _mutated(self) -> Files:
        """Return an input with one or two files changed."""
        files = dict(self.random.choice(self.pool))
        for _ in range(self.random.choice((1, 1, 1, 2))):
            names = [name for name in files if name not in self.reader.given]
            if not names:
                break
            name = self.random.choice(names)
            others = [each[name] for each in self.random.sample(self.pool, min(3, len(self.pool))) if name in each]
            files[name] = mutated_file(name, files[name], self.random, others, self.reader)
            if len(names) > 1 and self.random.random() < 0.01:
                del files[name]
        return files

    def _smaller(self, files: Files, fault: str) -> Files:
        """Return the input with what the fault does not need removed."""
        if "takes more than" in fault:
            return files
        tries = iter(range(SHRINKING))
        for name in list(files):
            size = max(len(files[name]) // 2, 1)
            while size and next(tries, None) is not None:
                for smaller in _without(files, name, size):
                    if next(tries, None) is None or self.judge.run(self.reader, smaller).fault == fault:
                        break
                else:
                    size //= 2
                    continue
                if next(tries, None) is not None:
                    files = smaller
        return files


def _without(files: Files, name: str, size: int) -> Iterator[Files]:
    raw = files[name]
    for start in range(0, len(raw), size):
        yield {**files, name: raw[:start] + raw[start + size :]}


def mutated_file(name: str, raw: bytes, random: Random, others: list[bytes], reader: Reader) -> bytes:
    """Return a file mutated in the way of its format, or as bytes."""
    if name.endswith((".json", ".jsonl", ".journal")) and random.random() < 0.6:
        return mutate_json(raw, random, reader.words)
    if name.endswith(".safetensors") and random.random() < 0.85:
        return mutate_tensors(raw, random, reader.words)
    return mutate(raw, random, others, reader.words)


def as_record(name: str, seed: int, verdict: Verdict, files: Files) -> dict[str, Any]:
    """Return a finding as plain values."""
    coded = {name: base64.b64encode(raw).decode() for name, raw in files.items()}
    return {"reader": name, "seed": seed, "fault": verdict.fault, "detail": verdict.detail[-6000:], "files": coded}


def from_record(record: dict[str, Any]) -> Files:
    """Return the input of a finding."""
    return {name: base64.b64decode(coded) for name, coded in record["files"].items()}


def main() -> None:
    """Try inputs on one reader after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("readers", nargs="+")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    out = open(os.dup(1), "w", encoding="utf-8")

    def tell(**values: Any) -> None:
        print(json.dumps(values), file=out, flush=True)

    logging.getLogger("speechctc.jit.cache").setLevel(logging.ERROR)  # that numba compiles is no finding
    judge = Judge()
    os.environ.setdefault("MPLCONFIGDIR", str(judge.root))  # matplotlib speaks where it may not write to the home
    tell(folder=str(judge.root))
    hunters = {name: Hunter(name, options.seed, judge) for name in options.readers}
    try:
        for hunter in hunters.values():
            hunter.begin()
    except AssertionError as error:
        judge.close()
        sys.exit(str(error))
    judge.limit_memory()
    tell(begun=True)
    for name, hunter in hunters.items():
        began = told = time.monotonic()
        tell(reader=name, tried=0)
        while hunter.tried < options.inputs and (now := time.monotonic()) < began + options.seconds:
            if record := hunter.next():
                tell(found=record)
            if now > told + TOLD:
                told = now
                tell(reader=name, tried=hunter.tried)
        tell(reader=name, tried=hunter.tried, done=True)
    judge.close()


if __name__ == "__main__":
    main()
