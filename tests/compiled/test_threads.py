"""Threads over a batch: every item once, also from inside one of the threads."""

import threading

import numpy as np

from spibb.compiled.threads import over_chunks


def test_every_item_is_done_once():
    done = np.zeros(1_000, dtype=int)

    def part(items):
        done[items] += 1

    over_chunks(part, np.arange(1_000))
    assert (done == 1).all()


def test_nested_calls_do_not_wait_for_each_other():
    done = np.zeros((64, 64), dtype=int)

    def outer(rows):
        for row in rows:
            over_chunks(lambda items, row=row: done[row].__setitem__(items, 1), np.arange(64))

    caller = threading.Thread(target=over_chunks, args=(outer, np.arange(64)), daemon=True)
    caller.start()
    caller.join(timeout=30)
    assert not caller.is_alive(), "the threads wait for each other"
    assert (done == 1).all()
