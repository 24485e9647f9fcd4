"""Tables of stimuli: sentences with regions, and the same rows with surprisals."""
