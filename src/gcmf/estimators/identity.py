"""What a model was made of: data and settings, each by a short text, so that two fits can be told apart."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf import __version__
from gcmf.data.fingerprint import fingerprint
from gcmf.options import Priors, is_integer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gcmf.data.collection import Collection
    from gcmf.model.fitted import Fitted
    from gcmf.options import FitOptions

#: Options that may differ between two fits that end with the same bits.
_FREE = ("n_threads",)


def made_of(estimator: Any, data: Collection, options: FitOptions, start: Fitted | None = None) -> dict[str, str]:
    """All that decides on the bits of a fit, by what each part is called."""
    return {"gcmf": repr(__version__), **_settings(estimator, options), **fingerprint(data), **_started(start)}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """In what something is made of other parts than something else was, in words."""
    found = []
    for name in [*here, *(name for name in there if name not in here)]:
        now, then = here.get(name), there.get(name)
        if now == then:
            continue
        if now is None or then is None:
            found.append(f"{name}: {'new' if then is None else 'no longer there'}")
        elif name.startswith(("the ", "what ")):
            plural = name.startswith(("the ids", "the cells"))
            found.append(f"{name} {'are' if plural else 'is'} not the same")
        else:
            found.append(f"{name} was {then} and is {now}")
    return found


def _settings(estimator: Any, options: FitOptions) -> dict[str, str]:
    """Every option as a text, and the seed, if it is a number."""
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.name not in _FREE}
    if is_integer(estimator.random_state):
        values["random_state"] = int(estimator.random_state)
    return {name: _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(part)}" for key, part in sorted(value.items())) + "}"
    if isinstance(value, Priors):
        return ", ".join(f"{field.name}={getattr(value, field.name)!r}" for field in fields(value))
    return repr(value.item() if isinstance(value, np.generic) else value)


def _started(start: Fitted | None) -> dict[str, str]:
    """By what a model is known that a fit started from."""
    if start is None:
        return {}
    sums = [float(np.abs(mean).sum(dtype=np.float64)) for mean in start.mean]
    return {"the model to start from": repr((start.on.shape, sums))}
