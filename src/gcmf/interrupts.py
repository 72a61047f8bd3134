"""Ctrl-C and SIGTERM that wait: a sweep is never left half done."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import FrameType


def in_main_thread() -> bool:
    """Whether signals can be handled here."""
    return threading.current_thread() is threading.main_thread()


class Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception: what Ctrl-C is to a person, it is to a job."""

    raised = False
    """Whether there was one in this process: code of others may turn it into a plain KeyboardInterrupt on its way."""


def terminate(number: int, frame: FrameType | None) -> NoReturn:
    """A handler that raises `Terminated`; commands set it, a library leaves signals alone while it does not fit."""
    del number, frame
    Terminated.raised = True
    raise Terminated


class Interrupts:
    """While open, the first Ctrl-C or SIGTERM only sets `wanted`; whoever sweeps looks at it when a sweep is done.

    A second one ends all at once, as ever. Nothing changes outside the main thread, or where the user has a signal
    handler of their own: then that one decides. Within another `Interrupts`, both know.
    """

    def __init__(self) -> None:
        self._noted = False
        self._outer: Interrupts | None = None
        self._old: dict[int, Any] = {}

    @property
    def wanted(self) -> bool:
        """Whether somebody has pressed Ctrl-C, or wants the process to end."""
        return self._noted or (self._outer is not None and self._outer.wanted)

    def __enter__(self) -> Interrupts:
        if not in_main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            outer = getattr(signal.getsignal(number), "__self__", None)
            self._outer = outer if isinstance(outer, Interrupts) else self._outer
        for number, known in ((signal.SIGINT, (signal.default_int_handler,)),
                              (signal.SIGTERM, (signal.SIG_DFL, terminate))):  # fmt: skip
            if signal.getsignal(number) in known:
                self._old[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._noted:
            self._noted = True
            return
        old = self._old[number]
        if callable(old):
            old(number, frame)
        signal.signal(number, old)
        os.kill(os.getpid(), number)
