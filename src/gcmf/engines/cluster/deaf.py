"""Loaded by workers that a fit starts: Ctrl-C and SIGTERM, which all processes of a terminal or a job get, are its own.

It ends at the end of its sweep, for which it needs them, and ends them then.
"""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Called by Dask when a worker starts, in the main thread of its process."""
    del worker
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
