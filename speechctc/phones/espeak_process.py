"""The process that reads texts with eSpeak NG, as it is asked for: started when it is needed, and again if it died."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import threading
import time
from typing import Any

from speechctc.core.errors import InputError
from speechctc.phones import espeak_library

SECONDS = 30.0  # that a text may take; a word takes a thousandth, and the worst texts half a second
# At words such as 's's's and A.A.A. eSpeak NG writes past its buffers, and does not always end then: a process that
# read one reads nothing more.
_MANY_PARTS = re.compile(r"(?:[^\s.'’]*[.'’]){9}")
TRIES = 2  # a process may have been ended from outside
SHOWN = 40  # characters of a text in a message
FIX = "correct or shorten these words, or give them in a dictionary"


class EspeakProcess:
    """Asks eSpeak NG in another process. It may be used by several threads, and after a fork.

    Parameters
    ----------
    library, data : str
        As for `espeak_library.Library`.
    """

    def __init__(self, library: str, data: str) -> None:
        self._command = [sys.executable, "-I", "-S", espeak_library.__file__, library, data]
        self._data = data
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._failed: dict[bytes, InputError] = {}  # texts are read several times
        atexit.register(self.close)

    def voices(self) -> list[Any]:
        """Return name, codes of languages and file of each voice without variants."""
        return list(self._ask(None, "the list of its voices"))

    def read(self, voice: str, text: str) -> tuple[list[str], list[list[int]]]:
        """Return the names of a text's phonemes, and of each word the index of its first character and phoneme.

        Raises
        ------
        InputError
            eSpeak NG ended while it read the text, or took too long; it does not start, or has no such voice.
        """
        if (answer := self._ask([voice, text], text)) is None:
            raise InputError(f"eSpeak NG has no voice {voice}", "install espeakng-loader 0.2.4")
        if _MANY_PARTS.search(text):
            with self._lock:
                self.close()
        names, words = answer
        return names, words

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()

    def _ask(self, request: Any, what: str) -> Any:
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            if line in self._failed:
                raise self._failed[line]
            for _ in range(TRIES):
                if self._process is None or self._owner != os.getpid():  # that of the process that forked is not ours
                    self._start()
                try:
                    return self._exchange(line)
                except TimeoutError:
                    how = f"did not end within {SECONDS:.0f} s"
                    break
                except (OSError, ValueError):
                    how = "failed"
            self._failed[line] = InputError(f"eSpeak NG {how} at {_shown(what)!r}", FIX)
            raise self._failed[line]

    def _exchange(self, line: bytes) -> Any:
        """Send a line and return the answer; after an error the process is ended."""
        assert self._process is not None and self._process.stdin and self._process.stdout
        began, late = time.monotonic(), threading.Timer(SECONDS, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            if not answer.endswith(b"\n"):
                raise OSError("the process ended")
            return json.loads(answer)
        except (OSError, ValueError):
            self.close()
            if time.monotonic() - began >= SECONDS:
                raise TimeoutError from None
            raise
        finally:
            late.cancel()

    def _start(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        try:
            self._process, self._owner = subprocess.Popen(self._command, **pipes), os.getpid()  # type: ignore[call-overload]
            version = self._exchange(b"")
        except (OSError, ValueError):
            version = ""
        if not version:
            self.close()
            raise InputError(f"eSpeak NG does not start with its data in {self._data}", "reinstall espeakng-loader")


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
