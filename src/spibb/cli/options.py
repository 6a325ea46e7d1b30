"""The options that several commands share; nothing heavy is imported for them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

# What is run where no algorithm is named, and where a setting is given that it does not have or the
# model is too large for it.
DEFAULT_ALGORITHM, OTHERWISE = "auto-spibb", "approx-soft-spibb"


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    json = "json"
    csv = "csv"


_LOG = (
    "Log: CSV, JSON lines, Parquet or Arrow, as a file, a folder or a glob; a database with "
    "--query; or its counts."
)
LogFile = Annotated[
    str,
    Argument(metavar="LOG", help=_LOG),
]
_QUERY = "The SELECT that finds the rows, where LOG is a DuckDB or SQLite file."
Query = Annotated[str | None, Option(metavar="SELECT", help=_QUERY)]
_BASELINE = (
    "The policy that made the log (state, action, probability), or 'estimate'; NAME=FILE for each "
    "policy that the log names. Not needed where the log has propensities."
)
Baseline = Annotated[list[str] | None, Option(metavar="[NAME=]FILE", help=_BASELINE)]
_IMPROVE_ON = "Which policy runs today, where the log names several (column 'policy')."
ImproveOn = Annotated[str | None, Option("--improve-on", metavar="NAME", help=_IMPROVE_ON)]
_GAMMA = "Discount, 0 <= gamma <= 1; to be left out for one-step logs."
Gamma = Annotated[float | None, Option(help=_GAMMA)]
Delta = Annotated[float | None, Option(help="Allowed probability of error [default: 0.05].")]
Level = Annotated[float, Option("--delta", help="Allowed probability of error.")]
_ERROR = (
    "Error function: hoeffding-q, hoeffding-p, hoeffding-returns or empirical-bernstein "
    "[default: hoeffding-q; in the adv algorithms hoeffding-returns]."
)
Error = Annotated[str | None, Option(help=_ERROR)]
Columns = Annotated[
    str | None, Option(metavar="NAME=COLUMN,...", help="Columns that are called otherwise.")
]
Rewards = Annotated[
    tuple[float, float] | None,
    Option("--reward-range", metavar="LOW HIGH", help="Smallest and largest reward possible."),
]
_INITIAL = "Distribution of the first state (state, probability) [default: as in the log]."
Initial = Annotated[str | None, Option(metavar="FILE", help=_INITIAL)]
StatesComplete = Annotated[
    bool,
    Option(
        "--states-complete", help="Declare that there are no states or actions but those listed."
    ),
]
NeverEnds = Annotated[bool, Option("--never-ends", help="Declare that the process never ends.")]
_SUCCESSORS = (
    "Declare what may follow: a file (state, [action,] next_state), or 'seen' for what followed in "
    "the log."
)
Successors = Annotated[str | None, Option(metavar="FILE|seen", help=_SUCCESSORS)]
_UNSEEN = (
    "What unobserved pairs do in the model: average (as their state), terminal, uniform or "
    "self-loop."
)
Unseen = Annotated[str, Option(help=_UNSEEN)]
_BY = "Column of the log, as ward, to tell rows, returns and changes apart by in the report."
By = Annotated[str | None, Option(metavar="COLUMN", help=_BY)]
_ACCEPT = "Go on although the log contradicts the baseline; 'spibb inspect' says how."
AcceptBaseline = Annotated[bool, Option("--accept-baseline", help=_ACCEPT)]
# Limits: what a new policy may do.
_FORBID = "An action that gets probability 0; may be repeated."
Forbid = Annotated[list[str] | None, Option(metavar="ACTION", help=_FORBID)]
_NO_INCREASE = "An action that gets no more than the baseline gives it; may be repeated."
NoIncrease = Annotated[list[str] | None, Option(metavar="ACTION", help=_NO_INCREASE)]
_ALLOWED = "Which actions are allowed where (state, action[, allowed]); others as by --no-increase."
Allowed = Annotated[str | None, Option(metavar="FILE", help=_ALLOWED)]
_ALLOWED_COLUMN = "The same by a column of the log, with names of actions and | between them."
AllowedColumn = Annotated[str | None, Option(metavar="COLUMN", help=_ALLOWED_COLUMN)]
Lock = Annotated[str | None, Option(metavar="FILE", help="States that keep the baseline (state).")]
_CAP = "Largest probability of an action; may be repeated."
Cap = Annotated[list[str] | None, Option(metavar="ACTION=P", help=_CAP)]
_CAP_INCREASE = "Largest increase of an action's probability; may be repeated."
CapIncrease = Annotated[list[str] | None, Option(metavar="ACTION=P", help=_CAP_INCREASE)]
_MAX_STATES = "Change at most so many states, chosen by a heuristic."
MaxStates = Annotated[int | None, Option(help=_MAX_STATES)]
_MIN_GAIN = "Change a state only if that is worth so much in it, by the estimated Q."
MinGain = Annotated[float | None, Option(help=_MIN_GAIN)]
_COST = "A column of the log that the new policy may not make rise; may be repeated."
Cost = Annotated[list[str] | None, Option(metavar="COLUMN", help=_COST)]
_FEATURES = (
    "Raw columns of the log beside the state, numbers or categories. They judge the policy in "
    "finer states, and do not change it."
)
Features = Annotated[str | None, Option("--features", metavar="COLUMN,...", help=_FEATURES)]
_MINIMIZE = (
    "The column of rewards holds costs: less is better. Rewards are then these costs with their "
    "sign turned, in every figure, and in --reward-range too."
)
Minimize = Annotated[bool, Option("--minimize", help=_MINIMIZE)]
_SHOW_IDS = "Name episodes in messages; without it no episode's id is shown, written or printed."
ShowIds = Annotated[bool, Option("--show-ids", help=_SHOW_IDS)]
PrintFormat = Annotated[Format, Option("--format", help="How to print the result.")]
ResultFolder = Annotated[Path, Option(help="Folder for the result.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace an earlier result.")]
