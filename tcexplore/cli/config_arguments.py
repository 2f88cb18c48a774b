"""The arguments of `tcexplore config`: a model file, and options of any command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tcexplore.cli.configuration.config_values import add_negation, configurable
from tcexplore.cli.options import Parser
from tcexplore.cli.parsers import PARSERS
from tcexplore.cli.request import ConfigQuery, Request


def config_request(arguments: Sequence[str]) -> Request:
    """Return the request of `tcexplore config`. Exits with 2 and one line on stderr if an argument is invalid."""
    parser = Parser(
        prog="tcexplore config",
        usage="tcexplore config [--explain] [--keys] [--json] [FILE] [any option of a command]",
        description="Show which configuration applies to a model file: the files, and each value that they set.",
        examples=("--explain model.py", "model.py --target h100", "--explain model.py --json", "--keys --keymap vim"),
        epilog="exit status: 0 ok, 2 a configuration file or an argument is invalid",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", default="", help="the model file (default: this folder)")
    parser.add_argument("--explain", action="store_true", help="show every option, with its value and its source")
    parser.add_argument("--keys", action="store_true", help="show the actions of the app with their keys")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_options(parser)
    given = parser.parse_args(arguments)
    own = ("file", "explain", "keys", "json")
    flags = {name: value for name, value in vars(given).items() if name not in own}
    return Request("config", given.file, json=given.json, query=ConfigQuery(given.explain, given.keys, flags))


def _add_options(parser: Parser) -> None:
    """Add the options of all commands that configuration files can set; the first command with a name decides."""
    known = set[str]()
    for make in PARSERS.values():
        for name, action in configurable(make()).items():
            if known.isdisjoint(action.option_strings):
                known.update(action.option_strings)
                action.default, action.required, action.help = argparse.SUPPRESS, False, argparse.SUPPRESS
                parser._add_action(action)
                add_negation(parser, name, action)
