"""The ``pdtools`` command: one module per subcommand."""

import sys


def entry() -> None:
    """Run the installed command; Ctrl-C while modules are still being imported is quiet, too."""
    try:
        from .main import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()
