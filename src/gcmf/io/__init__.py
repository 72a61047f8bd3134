"""People's data in: the project file, the sources it names, and a first one written for a folder or a database.

`project` holds the schema of `gcmf.toml`, `reader` turns one into a collection; `tables` opens any source through
DuckDB, `sources` and `features` stream it into columns, `discover` and `guess` look at what there is.
"""
