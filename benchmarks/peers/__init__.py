"""One adapter a tool: plain arrays in, a fit that is timed, predictions out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.peers.base import Peer
    from benchmarks.problem import Problem

#: Module and class of each; modules import their tool only when one is made.
PEERS = {
    "gcmf": ("benchmarks.peers.gcmf_own", "Gcmf"),
    "cmfrec": ("benchmarks.peers.cmfrec_als", "Cmfrec"),
    "myfm": ("benchmarks.peers.myfm_gibbs", "MyFM"),
    "smurff": ("benchmarks.peers.smurff_macau", "Smurff"),
    "mofapy2": ("benchmarks.peers.mofa", "Mofa"),
    "implicit": ("benchmarks.peers.implicit_als", "Implicit"),
}


def peer_class(name: str) -> type[Peer]:
    """The adapter of a tool."""
    module, found = PEERS[name]
    kind: type[Peer] = getattr(import_module(module), found)
    return kind


def make(name: str, problem: Problem, *, settings: Mapping[str, Any], threads: int) -> Peer:
    """The adapter of a tool, ready for one problem."""
    return peer_class(name)(problem, settings, threads=threads)
