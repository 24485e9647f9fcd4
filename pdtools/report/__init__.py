"""Tables for people: results on a terminal, in a pipe, and in EVALB's own form."""
