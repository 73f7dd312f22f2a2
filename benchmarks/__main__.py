"""python -m benchmarks [--quick] [--only KEY [--renew]] [--render]"""

from __future__ import annotations

import argparse
import os
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, prints only")
    parser.add_argument("--only", default="", help="workloads whose key contains this; prints only")
    parser.add_argument(
        "--renew", action="store_true", help="put the rows of --only into the stored results"
    )
    parser.add_argument(
        "--render", action="store_true", help="write the pages again from the stored results"
    )
    options = parser.parse_args(arguments)
    if options.renew and (options.quick or not options.only):
        parser.error("--renew needs --only, and whole sizes")

    from benchmarks import fresh

    os.environ.update(fresh.limit_threads(1))  # before NumPy starts its threads

    from benchmarks import page, table

    if options.render:
        page.write(page.stored(), fresh.ROOT)
        return 0

    from benchmarks import suite

    results = suite.run(
        options.quick, options.only, lambda text: print(text, file=sys.stderr, flush=True)
    )
    print(table.text(results))
    if options.renew:
        results = page.renewed(page.stored(), results)
    if options.renew or not (options.quick or options.only):
        page.store(results)
        page.write(results, fresh.ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
