"""An engine in another process: whoever drives it has nothing but what passes through a pipe."""

from __future__ import annotations

import multiprocessing
import pickle
import weakref
from collections import Counter
from functools import cache, partial
from itertools import count

import numpy as np

from gcmf.engines.base import Engine
from gcmf.engines.threads import single_threaded_blas

#: All that engines can be asked to do.
OPERATIONS = frozenset(name for name in vars(Engine) if not name.startswith("_") and name != "dtype")


class RemoteEngine:
    """Passes every operation on to an engine that another process makes, and counts the bytes of each."""

    def __init__(self, make, problem, **options):
        self._server = _server()
        self._number = next(self._server.numbers)
        self.calls = Counter()
        """How often each operation was asked for."""
        self.bytes = Counter()
        """Bytes of the largest question or answer of each operation."""
        weakref.finalize(self, self._server.unused.append, self._number)
        self._ask("make", make, problem, options)

    def __getattr__(self, name):
        if name not in OPERATIONS:
            raise AttributeError(name)
        return partial(self._ask, name)

    @property
    def dtype(self):
        """Precision in which the other process holds the state at present."""
        return self._ask("dtype")

    def _ask(self, operation, *args):
        answer, size = self._server.ask(self._number, operation, args)
        self.calls[operation] += 1
        self.bytes[operation] = max(self.bytes[operation], size)
        return answer


class Server:
    """The process that holds the remote engines of this one; spawned, as threads do not survive a fork."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        context.Process(target=_serve, args=(there,), daemon=True).start()
        self.numbers = count()
        self.unused = []
        """Numbers of engines that nobody has a use for any more."""

    def ask(self, number, operation, args):
        """Have an operation done; return its result, and the bytes of the longer message."""
        while self.unused:
            self._exchange(self.unused.pop(), "forget", ())
        return self._exchange(number, operation, args)

    def _exchange(self, *question):
        sent = pickle.dumps(question)
        self._pipe.send_bytes(sent)
        received = self._pipe.recv_bytes()
        answer = pickle.loads(received)
        if isinstance(answer, Exception):
            raise answer
        return answer, max(len(sent), len(received))


_server = cache(Server)


def _serve(pipe):
    """Make engines and do what they are asked for, as long as somebody asks."""
    engines = {}
    with single_threaded_blas(), np.errstate(all="ignore"):
        while True:
            try:
                question = pickle.loads(pipe.recv_bytes())
            except EOFError:
                return
            try:
                answer = _do(engines, *question)
            except Exception as error:
                answer = error
            pipe.send_bytes(pickle.dumps(answer))


def _do(engines, number, operation, args):
    if operation == "make":
        make, problem, options = args
        engines[number] = make(problem, **options)
    elif operation == "forget":
        engines.pop(number, None)
    elif operation == "dtype":
        return engines[number].dtype
    else:
        return getattr(engines[number], operation)(*args)
    return None
