"""Recurrent models: an LSTM or a simple network, with or without a differentiable stack."""
