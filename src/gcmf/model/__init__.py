"""The mathematics of a fit and of its answers, above the engines; `docs/model.md` has the formulas, file by file.

The paper's model is in `spec`, `posterior`, `init`, `hyper`, `elbo` and `structure`. `moves`, `gauge` and `joins` help
a fit along; `regression` has covariates and `conditionals` draws. `recording` and `fitted` keep what was found, and
`predict`, `ranking`, `reasons`, `newcomers` and `updating` answer from it.
"""
