"""What an object must carry over to another process to go on there with the same bits: plain values, by name."""

from __future__ import annotations

import json
from typing import Any, ClassVar, NoReturn

import numpy as np

from gcmf.errors import StorageError


class Carried:
    """Whatever changes while it works, and can be made anew as it was: `carried` names the attributes that change.

    They are truth values, numbers, arrays, lists of numbers, or are carried themselves.
    """

    carried: ClassVar[tuple[str, ...]] = ()

    def pack(self) -> dict[str, Any]:
        """The attributes as they are now."""
        return {name: _packed(getattr(self, name)) for name in self.carried}

    def unpack(self, values: dict[str, Any]) -> None:
        """Take attributes over that `pack` gave; each must be of the kind that is there already."""
        for name in self.carried:
            here, value = getattr(self, name), part(values, name)
            if isinstance(here, Carried):
                here.unpack(value)
            else:
                setattr(self, name, _alike(here, value, name))


def part(values: Any, name: str) -> Any:  # noqa: ANN401 - what was read from a file
    """The value of this name, of a mapping that has one."""
    if not isinstance(values, dict) or name not in values:
        refuse(name, "is not there")
    return values[name]


def array_like(here: np.ndarray, value: object, name: str) -> np.ndarray:
    """The value, if it is an array of the same type and shape."""
    if not isinstance(value, np.ndarray) or (value.dtype, value.shape) != (here.dtype, here.shape):
        found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        refuse(name, f"is {found}, and {here.dtype} {here.shape} is expected")
    return value


def refuse(name: str, why: str) -> NoReturn:
    """Say what is wrong with a part of a checkpoint."""
    msg = f"The checkpoint cannot be gone on from: {name!r} {why}. Start anew, without resume."
    raise StorageError(msg)


def pack_generator(rng: np.random.Generator) -> str:
    """A source of random numbers as it is now, and those that it will spawn, as a text."""
    bits, seeds = rng.bit_generator, rng.bit_generator.seed_seq
    if not isinstance(seeds, np.random.SeedSequence) or type(bits).__name__ not in _GENERATORS:
        refuse("random_state", f"is a {type(bits).__name__} that no file can hold; give a number")
    seed = {"entropy": seeds.entropy, "spawn_key": seeds.spawn_key, "pool_size": seeds.pool_size,
            "n_children_spawned": seeds.n_children_spawned}  # fmt: skip
    return json.dumps({"kind": type(bits).__name__, "seed": seed, "state": bits.state}, default=_listed)


def unpack_generator(text: object) -> np.random.Generator:
    """The source of random numbers that `pack_generator` took."""
    try:
        known = json.loads(str(text))
        bits = _GENERATORS[known["kind"]](np.random.SeedSequence(**known["seed"]))
        bits.state = known["state"]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        refuse("random numbers", f"cannot be read ({error})")
    return np.random.Generator(bits)


#: The sources that a file may name.
_GENERATORS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def _packed(value: Any) -> Any:  # noqa: ANN401 - one of the kinds above
    if isinstance(value, Carried):
        return value.pack()
    return value.copy() if isinstance(value, np.ndarray) else value.item() if isinstance(value, np.generic) else value


def _listed(value: Any) -> Any:  # noqa: ANN401 - a part of the state of a source of random numbers
    return value.tolist()


def _alike(here: Any, value: Any, name: str) -> Any:  # noqa: ANN401 - one of the kinds above
    if isinstance(here, np.ndarray):
        return array_like(here, value, name).copy()
    kind = next(kind for kind in (bool, int, float, list) if isinstance(here, kind))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        refuse(name, f"is {value!r}, and a {kind.__name__} is expected")
    return value
