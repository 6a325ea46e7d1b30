"""A job, the answer to it, and the error that names it.

A job is a pure function of its arguments: it may be computed anywhere, and again after a failure,
and gives the same result. That is what every engine relies on.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from spibb.errors import SpibbError

# Workers compute on one thread each: the engines share out the cores already.
THREADS_VARIABLE = "SPIBB_THREADS"
# BLAS reads its own before the worker is asked anything: it must find it in its environment.
BLAS_VARIABLE = "OPENBLAS_NUM_THREADS"


@dataclass(frozen=True)
class Job:
    """One unit of work.

    Attributes:
        name: Its id, which is also the name of its part.
        title: What it is, in words.
        arguments: What the function is called with.
    """

    name: str
    title: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """What a worker sends back: a result, or why there is none.

    Attributes:
        result: The result; None if the job failed.
        reason: Why it failed; empty if it did not.
        trace: The worker's traceback.
    """

    result: Any = None
    reason: str = ""
    trace: str = ""


# Is told a job and which part of it is done.
Listener = Callable[[Job, float], None]
# What an engine is: it takes a function, jobs and a listener, who may be told how far they are, and
# yields (job, result) as they finish.
Engine = Callable[[Callable[..., Any], Sequence[Job], Listener], Iterator[tuple[Job, Any]]]
# Who is told how far the job at hand is.
_LISTENER: ContextVar[Callable[[float], None]] = ContextVar("listener")


class JobError(SpibbError):
    """A job failed; the parts of the jobs that were finished before it are kept.

    Args:
        job: The job.
        reason: What happened.
        trace: The traceback where it happened, for those who look into it.
        hint: How to run it again.
    """

    def __init__(self, job: Job, reason: str, *, trace: str = "", hint: str | None = None) -> None:
        super().__init__(f"job {job.name} ({job.title}) failed: {reason.rstrip('.')}", hint=hint)
        self.job = job
        self.reason = reason
        self.trace = trace


def attempt(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    listener: Callable[[float], None] = lambda share: None,
) -> Answer:
    """Compute a job; an exception becomes an answer too, which any process can send.

    Args:
        function: Computes it.
        arguments: What it is called with.
        listener: Is told which part of the job is done, where it tells that itself.
    """
    token = _LISTENER.set(listener)
    try:
        return Answer(function(*arguments))
    except Exception as error:
        return Answer(reason=describe(error), trace=traceback.format_exc())
    finally:
        _LISTENER.reset(token)


def tell_progress(share: float) -> None:
    """Tell, from within a job that takes long, which part of it is done; nobody may listen."""
    listener = _LISTENER.get(None)
    if listener is not None:
        listener(share)


def settle(job: Job, answer: Answer) -> tuple[Job, Any]:
    """Return the job with its result, or raise what happened instead."""
    if answer.reason:
        raise JobError(job, answer.reason, trace=answer.trace)
    return job, answer.result


def describe(error: BaseException) -> str:
    """Return an error in one line.

    >>> describe(ZeroDivisionError("division by zero"))
    'ZeroDivisionError: division by zero'
    """
    text = " ".join(str(error).split())
    if isinstance(error, SpibbError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
