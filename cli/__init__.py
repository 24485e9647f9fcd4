"""The ``pdtools`` command: one module per subcommand."""
