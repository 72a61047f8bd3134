"""gcmf beside its peers: `python -m benchmarks run`, then `python -m benchmarks report`; see docs/benchmarks.md."""
