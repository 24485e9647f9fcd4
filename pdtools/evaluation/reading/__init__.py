"""Reading times: how well do a model's surprisals predict them, and how many milliseconds is a bit?"""
