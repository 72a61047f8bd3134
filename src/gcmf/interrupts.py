"""Ctrl-C that waits: a sweep is never left half done."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType


class Interrupts:
    """While open, the first Ctrl-C only sets `wanted`; whoever sweeps looks at it when a sweep is done.

    A second Ctrl-C raises KeyboardInterrupt at once, as ever. Nothing changes outside the main thread, or where the
    user has a signal handler of their own: then that one decides.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._old: Any = None

    def __enter__(self) -> Interrupts:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._old = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            signal.default_int_handler(number, frame)
        self.wanted = True
