"""Any file or database as a table, and what is read of it: relations, features, ids.

`tables` opens a source through DuckDB: `duck` keeps it from writing and from other files, `files` and `texts` know what
people's files look like. `relations`, `features` and `ids` read what a section of `specs` describes.
"""
