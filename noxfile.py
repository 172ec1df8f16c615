"""The project's checks, each in its own environment: `nox` runs the quick ones, `nox -l` lists them all."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
# pip, because it is the client that finds the CPU build of torch that constraints.txt names.
nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "imports", "schemas", "test"]

NO_TESTS_COLLECTED = 5


def install(session: nox.Session) -> None:
    """Install the package in place, with the tools at the versions CI uses."""
    session.install("-c", "constraints.txt", "-e", ".[dev,losses]")


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: rules and format."""
    install(session)
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict."""
    install(session)
    session.run("mypy")


@nox.session
def imports(session: nox.Session) -> None:
    """Import-linter: which module may import which."""
    install(session)
    session.run("lint-imports")


@nox.session
def schemas(session: nox.Session) -> None:
    """The committed schemas are those of today, and break nothing."""
    install(session)
    session.run("provenance", "schema", "--check")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in site/; a link that leads nowhere is an error."""
    install(session)
    session.run("mkdocs", "build", "--strict")


@nox.session
def test(session: nox.Session) -> None:
    """Pytest, the quick suite; arguments after -- go to pytest."""
    install(session)
    session.run("pytest", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Pytest, the tests marked slow; arguments after -- go to pytest."""
    install(session)
    session.run("pytest", "-m", "slow", *session.posargs, success_codes=[0, NO_TESTS_COLLECTED])


@nox.session
def mutants(session: nox.Session) -> None:
    """Change each rule in every small way: its examples must notice. Prints the score of each family."""
    install(session)
    session.run("pytest", "-m", "slow", "-rP", "tests/test_mutants.py", *session.posargs)


@nox.session
def hostile(session: nox.Session) -> None:
    """Read 20,000 hostile files with each reader; takes the better part of an hour."""
    install(session)
    session.chdir("tests")
    session.run("python", "-m", "hostile", *(session.posargs or ("all", "20000", "0")))


@nox.session
def bench(session: nox.Session) -> None:
    """Every file of benchmarks/, or those named after --."""
    install(session)
    for needed in ("benchmarks/requirements.txt", "tests/requirements-pipelines.txt"):
        session.install("-c", "constraints.txt", "-r", needed)
    files = session.posargs or sorted(str(path) for path in Path("benchmarks").glob("[!_]*.py"))
    if not files:
        session.skip("benchmarks/ holds no file")
    for file in files:
        session.run("python", file)
