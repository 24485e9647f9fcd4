"""Any benchmark of strings: a TOML file defines its items, and which scores have to be higher."""
