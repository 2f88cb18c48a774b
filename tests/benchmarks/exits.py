"""Every way to end the app at every moment: terminal restored, exit status right, no process and no folder left.

    python -m tests.benchmarks.exits [--ways q,SIGTERM] [--moments idle]

Each of the 63 pairs starts the app in a pseudo-terminal, waits for the moment, ends it, and prints one line. The exit
status is 1 if one fails. A signal that cannot be handled (SIGKILL, and SIGSEGV as a crash) cannot restore the terminal;
only its processes are checked.
"""

from __future__ import annotations

import argparse
import sys

from tests.end_to_end.exits import (
    MOMENTS,
    WAYS,
    problems,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=list(WAYS))
    parser.add_argument("--moments", type=lambda text: text.split(","), default=list(MOMENTS))
    options = parser.parse_args()
    failed = 0
    for moment in options.moments:
        for name in options.ways:
            try:
                wrong = problems(name, moment)
            except TimeoutError as error:
                wrong = [str(error)]
            failed += bool(wrong)
            print(f"{moment:10} {name:8} {'; '.join(wrong) or 'ok'}", flush=True)
    print(f"{len(options.moments) * len(options.ways) - failed} right, {failed} wrong")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
