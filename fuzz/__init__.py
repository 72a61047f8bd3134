"""Random fits, ordinary and hostile: `python -m fuzz --n 1000`, and `python -m fuzz --seed 123` for one case again."""
