"""``spibb count``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from spibb.cli import options as o

_ADDED = "Counts to which those of the log are added: yesterday's, or those of another place."
_RETURNS = "Count first-visit returns at this discount, too, for algorithms that need them."
_OUT = "File for the counts, in .npz; 'spibb improve' and 'spibb audit' take it for a log."


def count(
    log: o.LogFile,
    out: Annotated[Path, Option(metavar="FILE", help=_OUT)],
    added: Annotated[str | None, Option("--add-to", metavar="FILE", help=_ADDED)] = None,
    returns: Annotated[float | None, Option(metavar="GAMMA", help=_RETURNS)] = None,
    query: o.Query = None,
    columns: o.Columns = None,
    minimize: o.Minimize = False,
    show_ids: o.ShowIds = False,
    overwrite: o.Overwrite = False,
) -> None:
    """Count a log of any length, for later; or add tomorrow's log to what was counted.

    An episode that goes on in the log that is added is gone on with.
    """
    from spibb.cli.inputs import parse_columns
    from spibb.cli.printing import print_sentence
    from spibb.cli.shown_progress import shown_progress
    from spibb.data.counting import count_log
    from spibb.data.counts import Counts
    from spibb.data.counts_file import check_counts_name, is_counts_file
    from spibb.errors import OutputError
    from spibb.mdp.model import checked_gamma
    from spibb.problem.direction import refuse_turning

    check_counts_name(out)
    is_same = added is not None and Path(added).exists() and out.exists() and out.samefile(added)
    if out.exists() and not (overwrite or is_same):
        raise OutputError(f"{out} exists already", hint="choose another file, or say --overwrite")
    before = None if added is None else Counts.load(added)
    gamma = None if returns is None else checked_gamma(returns)
    if before is not None and before.returns is not None and gamma is None:
        gamma = before.returns.gamma
    if is_counts_file(log) and query is None:
        found = Counts.load(log)
        if minimize and not found.minimize:
            refuse_turning(found)
    else:
        with shown_progress("Counting", "rows") as progress:
            found = count_log(
                log, parse_columns(columns), keep_ends=True, gamma=gamma, query=query,
                minimize=minimize, progress=progress,
            )  # fmt: skip
    if before is not None:
        found = before.update(found)
    found.save(out)
    kept = "" if found.ends is None else f", {len(found.ends):,} episodes"
    transitions = f"{found.n_sas.nnz:,} transitions"
    if found.is_one_step:
        transitions = "each row a decision of its own"
    print_sentence(
        f"{int(found.n_sa.sum()):,} rows{kept}, {found.n_states:,} states, "
        f"{found.n_actions:,} actions, {transitions}. Written to {out}"
    )
