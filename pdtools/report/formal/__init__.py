"""Tables and figures of evaluations on formal languages."""
