"""The rows of the ledger, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.ledger.tasks import biology, pictures, recommend, simulated

if TYPE_CHECKING:
    from benchmarks.ledger.tasks.base import Task

TASKS: dict[str, Task] = {task.name: task for part in (simulated, recommend, biology, pictures) for task in part.TASKS}
