"""The commands and what becomes of errors: one sentence and exit 2, never a traceback, never a cell."""

from __future__ import annotations

import os
import sys
import traceback
from enum import Enum
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

from perinstance.cli.audit_command import audit
from perinstance.cli.choose_command import choose
from perinstance.cli.ledger_command import app as ledger
from perinstance.cli.model_commands import explain, export, intervals, predict, show
from perinstance.cli.notices import announcing, in_options, told_of_steps, tolerant_streams
from perinstance.cli.release_command import ReleaseCommand, release
from perinstance.cli.statement_command import publish_losses, statement
from perinstance.cli.table_commands import demo, recipe, reproduce


class Interrupted(BaseException):
    """Ctrl-C, under a name that the command-line library does not know: it would leave without a word."""


class Commands(TyperGroup):
    """The list of commands; an interrupt in one of them is ours to answer."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    name="perinstance",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # its tracebacks show local variables, which hold people's rows
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What did this release cost each person? The exact privacy loss of everybody in a published regression.",
)
for _command in (
    *(audit, choose, release, show, intervals, export, predict),
    *(statement, publish_losses, recipe, demo, explain, reproduce),
):
    app.command(cls=ReleaseCommand if _command is release else None)(_command)
app.add_typer(ledger, name="ledger")


class LogFormat(str, Enum):
    """How steps are told."""

    text = "text"
    json = "json"


def version(show: bool) -> None:
    """Print the version and stop."""
    if show:
        from perinstance import __version__

        typer.echo(f"perinstance {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: bool = Option(False, "--version", "-V", callback=version, is_eager=True, help="Show the version."),
    verbose: bool = Option(
        False, "--verbose", "-v", callback=told_of_steps, help="Tell each step on the error stream; it shows no data."
    ),
    log_format: Annotated[
        LogFormat | None,
        Option("--log-format", callback=told_of_steps, help="Tell each step: text, or lines of JSON with times."),
    ] = None,
) -> None:
    """What did this release cost each person? The exact privacy loss of everybody in a published regression."""


def main() -> None:
    """Run the command line: exit 0 fine, 1 a limit asked for is exceeded, 2 bad input, 130 interrupted."""
    with tolerant_streams():
        _run()


def _run() -> None:
    # and nothing that takes long: help and version need it too
    from perinstance.errors import FULL, PerinstanceError, PerinstanceWarning

    try:
        with announcing():
            try:
                app()
            finally:
                sys.stdout.flush()  # a full disk is told here, not when Python shuts down
    except PerinstanceError as error:
        _stop(in_options(str(error)))
    except (KeyboardInterrupt, Interrupted):
        _stop("interrupted; nothing was left half-written, and files from before are as they were", 130)
    except MemoryError:
        _stop("out of memory; pass a Parquet file, which is read block by block")
    except OSError as error:
        if error.errno in FULL:
            _stop("the disk is full; nothing was left half-written: make room and run the command again")
        place = f" ({os.path.basename(str(error.filename))})" if error.filename else ""
        _stop(f"{error.strerror or 'the system refused'}{place}; check the path and its permissions")
    except Warning as warning:  # PYTHONWARNINGS=error
        ours = in_options(str(warning)) if isinstance(warning, PerinstanceWarning) else type(warning).__name__
        _stop(f"{ours} (a warning, which PYTHONWARNINGS makes an error here; nothing was left half-written)")
    except Exception as error:
        # The text of an unforeseen error may quote a cell: name its type and place only.
        last = traceback.extract_tb(error.__traceback__)[-1]
        _stop(
            f"unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line {last.lineno}; "
            "this is a bug of perinstance: please report this line (it carries no data)"
        )


def _stop(sentence: str, code: int = 2) -> None:
    """Print one sentence where errors go and leave."""
    print(f"perinstance: {sentence}", file=sys.stderr)  # without the terminal's imports: they may be what failed
    raise SystemExit(code) from None
