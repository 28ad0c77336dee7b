"""Commands to look before and after: doctor, plot, check-labels, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.cli.options import OverwriteOption, SettingsArgument
from speechctc.cli.streams import show


def doctor_command(
    settings: SettingsArgument = None,
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--config", help="The config whose corpus to examine. Default: only the machine."),
    ] = None,
    json_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", metavar="FILE", help="Also write the findings to this JSON file; -: print only JSON."),
    ] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Examine a corpus and the machine before long work. Nothing is changed.

    Each finding says what is wrong, where, why it matters and what to do. The exit status is 1 if training is
    impossible, else 0.
    """
    import json

    from speechctc.config.load import load_config
    from speechctc.inference.output import check_place
    from speechctc.progress import Reporter
    from speechctc.stages.doctor import examine
    from speechctc.storage import written

    prints = json_file == Path("-")
    if not prints:
        check_place(json_file, overwrite)
    loaded = load_config(config, settings or ()) if config else None
    diagnosis = examine(loaded, Reporter())
    if prints:
        typer.echo(json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1))
    else:
        show(diagnosis.to_text())
        if json_file:
            written.write_json(json_file, diagnosis.to_dict(), overwrite)
    if not diagnosis.is_possible:
        raise typer.Exit(1)
