"""The options of a command, from the command line first and then from configuration files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tcexplore.cli.configuration.config_file import ConfigError, ConfigFile, config_files
from tcexplore.cli.configuration.config_values import (
    add_negation,
    config_values,
    configurable,
    converted,
    set_by_environment,
)
from tcexplore.cli.error_line import print_error
from tcexplore.cli.file_argument import BadFileError, split
from tcexplore.cli.options import Parser


def parse_options(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments of a command; options that they leave out come from configuration files.

    Exits with 2 and one line on stderr if one of them is invalid.
    """
    if "-h" in arguments or "--help" in arguments:
        return parser.parse_args(arguments)
    options = configurable(parser)
    defaults = {name: (action.default, action.required) for name, action in options.items()}
    for name, action in options.items():
        action.default, action.required = argparse.SUPPRESS, False
        add_negation(parser, name, action)
    given = parser.parse_args(arguments)
    for name, action in options.items():
        if set_by_environment(name) and not hasattr(given, action.dest):
            setattr(given, action.dest, True)
    try:
        configure(parser, given, config_files(model_path(given)))
    except ConfigError as error:
        print_error(str(error), parser.prog)
        parser.exit(2)
    for name, action in options.items():
        default, required = defaults[name]
        if hasattr(given, action.dest):
            continue
        if required:
            parser.error(f"the following arguments are required: --{name}")
        if default is not argparse.SUPPRESS:
            setattr(given, action.dest, default)
    return given


def model_path(given: argparse.Namespace) -> str:
    """Return the path of the model file, or the working directory for a command without one."""
    target = getattr(given, "file", None)
    if not target:
        return "."
    try:
        return split(target)[0]
    except (BadFileError, ValueError):
        return str(target)


def configure(parser: Parser, given: argparse.Namespace, files: Sequence[ConfigFile]) -> None:
    """Set the options that the command line leaves out from configuration files. Raises `ConfigError`."""
    if not files:
        return
    from tcexplore.cli.config_command import check_keys

    options = configurable(parser)
    for file in files:
        check_keys(file, parser)
    for name, value in config_values(files, parser, model_path(given)).items():
        action = options[name]
        if not hasattr(given, action.dest):
            setattr(given, action.dest, converted(action, value))
