"""The project file: `schema` says what may stand in it, `read` makes a collection of it."""
