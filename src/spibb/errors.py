"""The errors a user can meet.

Every message follows one template: what is wrong, where (the first index or row), what was
expected, and what to do about it. The command line prints the message and exits with code 2.
"""


class SpibbError(ValueError):
    """Something the caller can put right.

    Args:
        what: What is wrong, with the offending value.
        where: The first place where it is wrong: a row, a state, a file.
        expected: What would have been accepted.
        hint: What to do about it.

    Example:
        >>> print(SpibbError("epsilon is -1", expected="a number >= 0", hint="drop the sign"))
        epsilon is -1; expected a number >= 0. To fix it: drop the sign.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        message = what
        if where is not None:
            message += f" (first at {where})"
        if expected is not None:
            message += f"; expected {expected}"
        message += "."
        if hint is not None:
            message += f" To fix it: {hint}."
        super().__init__(message)


def as_number(value: object, name: str) -> float:
    """Return a setting as a float, or refuse it."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is {value!r}", expected="a number") from None


class DataError(SpibbError):
    """A log, a table of counts or an input file is not usable."""


class PolicyError(SpibbError):
    """A policy is not a table of distributions, or does not fit the log."""


class ModelError(SpibbError):
    """The arrays given as an MDP do not describe one."""


class SettingsError(SpibbError):
    """A setting of an algorithm, an error function or a command is out of range."""


class OutputError(SpibbError):
    """A result could not be written."""


class MissingDependencyError(SpibbError, ImportError):
    """An optional package is needed and absent."""
