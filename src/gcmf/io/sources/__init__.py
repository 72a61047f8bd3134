"""Any file or database as a table, and what is read of it: relations, features, ids.

`tables` opens a source through DuckDB: `duck` keeps it from writing and from other files, `files` and `texts` know what
people's files look like, and `postgres` reads a server. `relations` and `features` read what a section of `specs`
describes, by way of `columns`, whose values are ids and numbers.
"""
