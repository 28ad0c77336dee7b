"""The command line: the list of commands, and the one place where errors become messages."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer

from speechctc import __version__
from speechctc.cli import recognition, scoring, training
from speechctc.cli.options import drop_output, say, write_utf8
from speechctc.core.errors import InputError, no_torch, of_disk
from speechctc.core.parallel import BLAS_THREADS
from speechctc.core.processes import open_standard_streams

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train phoneme recognisers from recordings and phone labels, and use them.",
)

MAY_BE_EMPTY = "--silence"  # for which nothing is a choice
TRAINING = ("torch", "torchaudio")  # what the extra `train` brings

# In the order of the help. A command imports its stage when it runs, so that --help loads neither torch nor numpy.
COMMANDS: dict[str, Callable[..., None]] = {
    "start": training.start_command,
    "doctor": scoring.doctor_command,
    "check-labels": scoring.check_labels_command,
    "mark-checked": scoring.mark_checked_command,
    "extract": training.extract_command,
    "train": training.train_command,
    "plot": scoring.plot_command,
    "sweep": training.sweep_command,
    "evaluate": scoring.evaluate_command,
    "compare": scoring.compare_command,
    "decode": recognition.decode_command,
    "align": recognition.align_command,
    "score-phones": recognition.score_phones_command,
    "measure": scoring.measure_command,
    "studio": recognition.studio_command,
    "calibrate": scoring.calibrate_command,
    "train-boundaries": scoring.train_boundaries_command,
    "export": training.export_command,
    "inspect": scoring.inspect_command,
    "score-boundaries": scoring.score_boundaries_command,
    "config": training.config_command,
    "plugins": recognition.plugins_command,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(training.lm_app, name="lm")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"speechctc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _show_usage(error: Any, file: Any = None) -> None:
    """Print what is wrong with a command line in one line, of which typer makes four."""
    what = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".?")
    name = error.ctx.command_path if error.ctx else "speechctc"
    say(f"{what[:1].lower()}{what[1:]}; see {name} --help")


USAGE_ERROR: Any = typer.BadParameter.__base__  # it has no public name
USAGE_ERROR.show = _show_usage


def _is_interruption(end: SystemExit) -> bool:
    """Return whether Ctrl-C led to this end, which typer does not say; then another one ends the process at once.

    All that a command holds was given back by then, and torch takes a while to leave: a second Ctrl-C during that time
    would show where, for nothing.
    """
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    if cause is not None or end.code == 128 + signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return cause is not None


def _note_encoding() -> None:
    """Say that a locale reads names of files in another encoding than UTF-8: then they are other names in results."""
    encoding = sys.getfilesystemencoding()
    if encoding.lower().replace("-", "") != "utf8":
        say(f"this locale reads names of files as {encoding}; if they are in UTF-8, set PYTHONUTF8=1")


def _check_folder() -> None:
    """Raise an `InputError` if the working directory was removed: some libraries end the process then."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise InputError("the working directory is gone", "change to a folder that is there: cd") from None


def _check_empty(arguments: list[str]) -> None:
    """Raise an `InputError` if a value is empty: a path that is empty would be the working directory."""
    for before, each in pairwise(["", *arguments]):
        name, _, value = each.partition("=")
        if MAY_BE_EMPTY in (before, name):
            continue
        if not each or (name.startswith("--") and "=" in each and not value):
            option = name or (before if before.startswith("--") else "an argument")
            raise InputError(f"{option} is empty", "give it a value, or leave it out")


def main() -> None:
    """Run the command line; an error of the user's is one line on standard error and status 2."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch is loaded: threads that spin slow a busy machine
    os.environ.setdefault(BLAS_THREADS, "1")  # before numpy is: recognition has threads of its own
    try:
        open_standard_streams()
        write_utf8()
        _note_encoding()
        _check_folder()
        _check_empty(sys.argv[1:])
        app(prog_name="speechctc")
    except SystemExit as end:
        if _is_interruption(end):
            say("interrupted")
        raise
    except Exception as error:
        if (told := _explained(error)) is None:
            raise
        say(str(told))
        drop_output()
        sys.exit(2)


def _explained(error: Exception) -> InputError | None:
    """Return the one line for an error that the user can mend: bad input, no torch, memory or disk; None for others."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in TRAINING:
        return no_torch()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        reason = str(error).splitlines()[0] if str(error) else "no more to be had"
        return InputError(f"out of memory ({reason})", "end other programs, or give this one a larger limit")
    if isinstance(error, OSError) and (error.filename, error.errno) != (None, None):
        return of_disk(error)
    return None
