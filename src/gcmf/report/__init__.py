"""What pictures and the report are made of: tidy tables, words, places in the plane; and the report itself."""
