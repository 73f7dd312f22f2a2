"""``python -m kuq`` is the same as the command ``kuq``."""

import sys

from kuq.cli import main

if __name__ == "__main__":
    sys.exit(main())
