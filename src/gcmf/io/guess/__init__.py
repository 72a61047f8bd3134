"""`gcmf init`: a look at tables, guesses at what they relate, and a project file that explains each of them."""
