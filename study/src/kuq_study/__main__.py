"""``python -m kuq_study`` is the same as the command ``kuq-study``."""

import sys

from kuq_study.cli import main

if __name__ == "__main__":
    sys.exit(main())
