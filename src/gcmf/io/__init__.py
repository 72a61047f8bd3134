"""People's data in: the project file, the sources it names, and a first one written for a folder or a database.

`schema` says what may stand in `gcmf.toml`, `project` turns one into a collection. `tables` opens any source through
DuckDB (`duck` keeps it from writing and from other files; `texts` and `files` know what people's files look like);
`sources`, `ids` and `features` turn it into columns. `look`, `columns`, `decimals`, `guess`, `layouts`, `discover` and
`write` are `gcmf init`.

Out: `predictions`, `results`; and `holdout` and `evaluate`, which ask how good a model is.
"""
