"""The paper, readable in order: spec, posterior, init, hyper, elbo, structure, moves, predict."""
