"""Shapes and recipes of the experiments, one TOML file each."""
