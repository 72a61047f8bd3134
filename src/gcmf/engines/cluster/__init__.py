"""The engine of a Dask cluster: workers have the cells of some rows each, and who drives it has the parameters."""
