"""Any benchmark of strings: a TOML file says what its items are, and which scores have to be higher."""
