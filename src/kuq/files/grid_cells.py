"""How much the cells of a grid count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kuq.files.decompose import Layout

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Areas:
    """Where the areas of cells count, if they do."""

    #: The weights of the event in kuq.xarray.
    of_event: str | None = None
    #: Whether they count in means over inputs.
    of_inputs: bool = False

    @classmethod
    def of(cls, data: xr.DataArray | xr.Dataset, layout: Layout) -> Areas:
        """In the score where latitude is a dimension of the event, else in means."""
        from kuq.xarray.area import latitude_of

        if not layout.area_weights:
            return cls()
        return cls("area") if latitude_of(data) in layout.event else cls(None, True)

    def along(self, data: xr.DataArray | xr.Dataset) -> xr.DataArray | None:
        """The area of cells along the latitude of data, where it counts anywhere."""
        from kuq.xarray.area import area_weights

        return area_weights(data) if self.of_inputs or self.of_event else None

    @property
    def notes(self) -> tuple[str, ...]:
        if self.of_inputs:
            return ("means are weighted by the areas of grid cells",)
        return ("cells of an outcome count by their area",) if self.of_event else ()
