"""One measurement in a process of its own: `python -m benchmarks.worker '{"task": ..., "out": ...}'`."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import machine, measure, scaling, small
from benchmarks.ledger import runner as ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TASKS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "measure": measure.measure,
    "fill_cache": measure.fill_cache,
    "first_fit": small.first_fit,
    "tiny": small.tiny,
    "binary_memory": small.binary_memory,
    "peaks": machine.peaks,
    "scaling": scaling.one,
    "ledger": ledger.one,
}


def main() -> None:
    """Do what the first argument says and write the answer where it says."""
    job = json.loads(sys.argv[1])
    if "memory" in job:  # bytes of address space: better an error here than a machine that stands still
        resource.setrlimit(resource.RLIMIT_AS, (job["memory"],) * 2)
    Path(job["out"]).write_text(json.dumps(TASKS[job["task"]](job)))


if __name__ == "__main__":
    main()
