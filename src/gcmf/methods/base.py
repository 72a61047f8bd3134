"""What the loop of a fit expects of a method."""

from __future__ import annotations

from typing import Any, Protocol


class Method(Protocol):
    """What raises the bound of a run, sweep by sweep."""

    @property
    def capped(self) -> bool:
        """Whether more factors than may be would have raised the bound."""

    def sweep(self) -> None:
        """One iteration."""

    def arrived(self, change: float, size: float, flat: float) -> bool:
        """Try what else may raise a bound of this size; whether nothing does, and the sweep did by at most `flat`."""

    def pack(self) -> dict[str, Any]:
        """What it must carry over to go on in another process (`Carried`)."""

    def unpack(self, values: dict[str, Any]) -> None:
        """Go on with what was carried over."""
