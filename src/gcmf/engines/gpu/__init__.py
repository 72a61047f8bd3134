"""The GPU engine: the same mathematics as the compiled engine, with cells and parameters on a CUDA device."""
