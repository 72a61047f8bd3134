"""The ledger: how well gcmf predicts real data, beside itself and its peers, on the same splits."""
