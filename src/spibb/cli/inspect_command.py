"""``spibb inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from spibb.cli import options as o

_BASELINE = "The policy that is said to have made the log; NAME=FILE for each that it names."
Baseline = Annotated[list[str] | None, Option(metavar="[NAME=]FILE", help=_BASELINE)]
_PICTURE = "Draw what was found, as .svg or .png."
Picture = Annotated[Path | None, Option(metavar="FILE", help=_PICTURE)]


def inspect(
    log: o.LogFile,
    baseline: Baseline = None,
    reward_range: o.Rewards = None,
    query: o.Query = None,
    columns: o.Columns = None,
    features: o.Features = None,
    minimize: o.Minimize = False,
    show_ids: o.ShowIds = False,
    improve_on: o.ImproveOn = None,
    picture: Picture = None,
    printed: o.PrintFormat = o.Format.table,
    overwrite: o.Overwrite = False,
) -> None:
    """Say what a log holds, whether the baseline made it, and what would spoil a result.

    Exit code 1 if the other commands refuse the log with this baseline or range of rewards.
    """
    import spibb
    from spibb.cli.inputs import parse_columns, parse_features, read_baseline
    from spibb.cli.inspection_printing import print_inspection
    from spibb.data.counts_file import is_counts_file
    from spibb.errors import DataError
    from spibb.report.inspection import check_picture, write_picture

    if picture is not None:
        check_picture(picture, overwrite=overwrite)
    if is_counts_file(log):
        raise DataError(
            f"{log} holds counts", expected="a log: what is asked of it, counts do not keep",
            hint="inspect the log itself",
        )  # fmt: skip
    rows = spibb.read_log(
        log, columns=parse_columns(columns), query=query, features=parse_features(features),
        minimize=minimize,
    )  # fmt: skip
    found = spibb.inspect(
        rows,
        baseline=read_baseline(baseline, rows),
        reward_range=reward_range,
        improve_on=improve_on,
    )
    if picture is not None:
        write_picture(found, picture)
    print_inspection(found, printed)
    raise Exit(1 if found.is_refused else 0)
