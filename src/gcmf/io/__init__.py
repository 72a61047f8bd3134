"""People's data in and out.

- `sources`: any file or database as a table, and the relations, features and ids in it.
- `project`: the project file `gcmf.toml`, what may stand in it, and the collection it describes.
- `guess`: what `gcmf init` makes of a folder or a database.
- `evaluate`: cells that are hidden from a fit, and how well methods predict them; `variants`: what is compared.
- `predictions`, `answers`, `results`, `outputs`: answers of a model as tables, and tables as files.

Imports point down: `project` and `guess` build on `sources`, and do not know each other.
"""
