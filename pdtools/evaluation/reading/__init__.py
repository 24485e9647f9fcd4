"""Reading times: how well a model's surprisals predict them, and the milliseconds per bit."""
