"""What the server of `tests.forked` has loaded before it forks."""

import importlib
import os
from contextlib import suppress

import soundfile

os.fsync, soundfile.SoundFile.flush = lambda fd: None, lambda file: None  # as in tests/conftest.py
for name in ("numba", "speechctc.cli.app", "speechctc.stages.decode", "speechctc.stages.train", "tests.forked"):
    importlib.import_module(name)
with suppress(ImportError):
    importlib.import_module("distributed")
