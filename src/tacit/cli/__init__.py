"""The command line: parse, call one function, print."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from typing import NoReturn

import click

from tacit import __version__
from tacit.errors import TacitError
from tacit.files import reason_of

COMMANDS = {
    "policy": "tacit.cli.policy",
    "perturb": "tacit.cli.perturb",
    "fit": "tacit.cli.fit",
    "recommend": "tacit.cli.recommend",
    "similar": "tacit.cli.similar",
    "personal": "tacit.cli.personal",
    "audit": "tacit.cli.audit",
    "noise": "tacit.cli.noise",
    "evaluate": "tacit.cli.evaluate",
    "tradeoff": "tacit.cli.tradeoff",
    "reproduce": "tacit.cli.reproduce",
    "data": "tacit.cli.data",
    "demo": "tacit.cli.demo",
    "serve": "tacit.cli.serve",
    "db": "tacit.cli.db",
}

_BAD_INPUT = 2
_FAILED = 1
_INTERRUPTED = 130
_LONGEST_MESSAGE = 1000


class _LazyGroup(click.Group):
    """Imports a command's module only when the command is used, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        if cmd_name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tacit")
def tacit() -> None:
    """Learn what people like from ratings they never disclose.

    \b
    Example:
      tacit policy new --scale 1:5:1 --epsilon 1 -o policy.json
      tacit perturb ratings.csv --policy policy.json -o reports.parquet
      tacit fit reports.parquet --policy policy.json -o model/
      tacit recommend model/ --user 42
    """


def main() -> NoReturn:
    """Run the command; bad input ends in one line on standard error and status 2."""
    warnings.formatwarning = _one_line
    try:
        status = tacit.main(standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        _leave("interrupted", _INTERRUPTED)
    except MemoryError:
        _leave("out of memory; use a machine with more, or fewer reports, a lower rank or fewer threads", _FAILED)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(_BAD_INPUT)
    except click.ClickException as error:
        _leave(error.format_message(), _BAD_INPUT)
    except TacitError as error:
        _leave(str(error), _BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output went away; do not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _leave(f"{error.filename or 'input or output'}: {reason_of(error)}", _BAD_INPUT)
    sys.exit(status if isinstance(status, int) else 0)


def _one_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"tacit: {message}\n"


def _leave(message: str, status: int) -> NoReturn:
    text = " ".join(message.split())[:_LONGEST_MESSAGE]
    # What came from a file may hold characters that steer a terminal.
    click.echo(f"tacit: {text if text.isprintable() else ascii(text)[1:-1]}", err=True)
    sys.exit(status)
