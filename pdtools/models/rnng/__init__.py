"""Recurrent Neural Network Grammars (Dyer et al. 2016): an LSTM reads the stack of an action system."""
