"""The paper's experiments, an application of gcmf: each fits, measures, and sets the paper's claims beside its own."""
