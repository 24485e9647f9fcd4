"""``python -m pdtools``, the form in which torchrun starts it."""

import sys

from pdtools.cli import entry

if __name__ == "__main__":
    sys.argv[0] = "pdtools"
    entry()
