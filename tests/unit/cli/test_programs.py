"""What the programs print and how they end, without a cluster."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pyroclast_cli import programs
from pyroclast_cli.flags import Flag, FlagError, parse, usage_table
from tests.unit.cli.golden.server import serving

FLAGS = (
    Flag("name", "n", "", "the name"),
    Flag("all-namespaces", default=False, text="everywhere", kind="bool"),
    Flag("weight", "w", 1, "the weight", "int32"),
    Flag("force", "f", default=False, kind="bool"),
)


@pytest.mark.parametrize(
    ("arguments", "changed", "positional"),
    [
        ([], {}, []),
        (["--name", "x"], {"name": "x"}, []),
        (["--name=x=y"], {"name": "x=y"}, []),
        (["--name="], {"name": ""}, []),
        (["-n", "x", "more"], {"name": "x"}, ["more"]),
        (["-nx"], {"name": "x"}, []),
        (["-n=x"], {"name": "x"}, []),
        (["-fn", "x"], {"force": True, "name": "x"}, []),
        (["--all_namespaces"], {"all-namespaces": True}, []),
        (["--all-namespaces=false"], {"all-namespaces": False}, []),
        (["-w", "-3"], {"weight": -3}, []),
        (["one", "--", "-n", "x"], {}, ["one", "-n", "x"]),
        (["-"], {}, ["-"]),
    ],
)
def test_flags_and_positional_arguments_may_be_mixed(arguments, changed, positional):
    values = {flag.name: flag.default for flag in FLAGS}
    assert parse(arguments, FLAGS) == ({**values, **changed}, positional)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nmae", "x"], "unknown flag: --nmae"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-fx"], "unknown shorthand flag: 'x' in -x"),
        (["--name"], "flag needs an argument: --name"),
        (["-n"], "flag needs an argument: 'n' in -n"),
        (
            ["-w", "much"],
            'invalid argument "much" for "-w, --weight" flag: strconv.ParseInt: parsing "much": invalid syntax',
        ),
        (
            ["-w", "2147483648"],
            'invalid argument "2147483648" for "-w, --weight" flag: strconv.ParseInt: parsing "2147483648": value out of range',
        ),
        (
            ["--all-namespaces=maybe"],
            'invalid argument "maybe" for "--all-namespaces" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
    ],
)
def test_invalid_flag_is_named_in_the_error(arguments, message):
    with pytest.raises(FlagError) as caught:
        parse(arguments, FLAGS)
    assert str(caught.value) == message


def test_the_usage_lists_flags_in_order_with_their_defaults():
    assert usage_table(FLAGS).splitlines() == [
        "      --all-namespaces   everywhere",
        "  -f, --force            ",
        "  -n, --name string      the name",
        "  -w, --weight int32     the weight (default 1)",
    ]


NO_SERVER = ("--master", "http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def without_a_kubeconfig(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_vcctl_help_lists_the_commands(arguments, capsys):
    assert programs.vcctl(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Usage:\n  vcctl [command]\n\nAvailable Commands:\n")
    for line in (
        "help        Help about any command",
        "job         vcctl command line operation job",
        "jobflow     vcctl command line operation jobflow",
        "jobtemplate vcctl command line operation jobtemplate",
        "pod         vcctl command line operation pod",
        "queue       Queue Operations",
        "version     Print the version information",
    ):
        assert f"\n  {line}\n" in printed
    original, _, others = printed.partition('Use "vcctl [command] --help" for more information about a command.\n')
    assert len(re.findall(r"^  [a-z]", original.partition("Flags:")[0], re.MULTILINE)) == 8, "Volcano's lines, and no more"
    listed = re.findall(r"^  ([a-z-]+) ", others, re.MULTILINE)
    ours = {each.name for each in programs.all_commands() if each.is_ours and not each.name.startswith("_")}
    assert set(listed) == ours
    assert len(listed) == len(ours)


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("wait", ["  0   the Job has the phase", "  1   the phase can no longer be reached", "  124 the timeout is over"]),
        (
            "explain",
            ["  0   the Job waits, runs or has ended", "  3   the Job can never start", "  4   the object does not exist"],
        ),
    ],
)
def test_help_of_a_command_lists_its_exit_statuses_under_a_heading(command, lines, capsys):
    assert programs.vcctl([command, "--help"]) == 0
    assert "\nExit Status:\n" + "".join(f"{line}\n" for line in lines) in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["job"], ["job", "--help"], ["help", "job"], ["job", "nothing"]])
def test_vcctl_job_without_a_valid_subcommand_prints_the_group_help(arguments, capsys):
    assert programs.vcctl(arguments) == 0
    assert "\n  run         run job by parameters from the command line\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "begins"),
    [
        (["jbo"], 1, 'Error: unknown command "jbo" for "vcctl"\n\nDid you mean this?\n\tjob\n'),
        (["job", "list", "--nothing"], 1, "Usage:\n  vcctl job list [flags]\n"),
    ],
)
def test_unknown_command_or_flag_is_reported_on_stderr_with_status_1(arguments, status, begins, capsys):
    assert programs.vcctl(arguments) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(begins)


WEIGHT = "weight must be specified, the value must be greater than 0"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("vcctl job run", " run job: job name cannot be left blank"),
        ("vcctl job run -f job.json", " run job: only support yaml file"),
        ("vcctl job run -N x -R cpu", " run job: invalid argument syntax cpu, expected <resource>=<value>"),
        ("vcctl job view", " view job: job name (specified by --name or -N) is mandatory to view a particular job"),
        ("vcctl job suspend", " suspend job: job name is mandatory to suspend a particular job"),
        ("vcctl job resume", " resume job: job name is mandatory to resume a particular job"),
        ("vcctl job delete", " delete job: job name is mandatory to delete a particular job"),
        ("vcctl queue delete", " delete queue: queue name must be specified"),
        ("vcctl queue operate", " operate queue: queue name must be specified"),
        ("vcctl queue operate -n q", " operate queue: action can not be null"),
        ("vcctl queue operate -n q -a update", f" operate queue: when update queue q, {WEIGHT}"),
        ("vcctl queue operate -n q -a burn", " operate queue: action burn invalid, valid actions are open, close and update"),
        ("vcctl queue get", " get queue: name is mandatory to get the particular queue details"),
        ("vcctl jobflow get", " get jobflow: name is mandatory to get the particular jobflow details"),
        ("vcctl jobflow delete", " delete jobflow: jobflow name must be specified"),
        ("vcctl jobflow create", " create jobflow: open : no such file or directory"),
        ("vcancel", ": job name is mandatory to cancel a particular job"),
        ("vsuspend", ": job name is mandatory to suspend a particular job"),
        ("vresume", ": job name is mandatory to resume a particular job"),
        ("vsub", ": job name cannot be left blank"),
    ],
)
def test_compatible_command_with_missing_or_invalid_arguments_exits_255_with_the_reason(command, line, capsys):
    program, *arguments = command.split()
    assert getattr(programs, program)([*arguments, *NO_SERVER]) == 255
    assert capsys.readouterr().out == f"Failed to{line}\n"


@pytest.mark.parametrize("command", ["vcctl job list", "vcctl queue list", "vcctl pod list", "vjobs", "vqueues"])
def test_compatible_command_reports_an_unreachable_server_in_one_line_and_exits_255(command, capsys):
    program, *arguments = command.split()
    assert getattr(programs, program)([*arguments, *NO_SERVER]) == 255
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Failed to")


NEED_A_SERVER = (
    "waiting|running|explain x|explain queue/x|explain node/x|order -q x|queues|budget|limits|nodes|tree x|timeline x|logs x|"
    "logs x -f|wait x|waiting -w"
)


@pytest.mark.parametrize("command", NEED_A_SERVER.split("|"))
def test_pyroclast_command_reports_an_unreachable_server_on_stderr_and_exits_1(command, capsys):
    arguments = command.split()
    assert programs.vcctl([*arguments, *NO_SERVER]) == 1
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith(f"vcctl {arguments[0]}: the API server does not answer: ")
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "name one Job, as NAME or job/NAME; there are 0 names"),
        (["explain", "a", "b"], "name one Job, as NAME or job/NAME; there are 2 names"),
        (["explain", "pod/a"], '"pod" is no kind that this command knows'),
        (["logs", "job/"], "the name of the Job is missing behind the slash"),
        (["tree"], "name one flow"),
        (["waiting", "-x"], "unknown shorthand flag"),
        (["logs", "x", "--since", "yesterday-ish"], "--since: "),
        (["fits"], "name a manifest"),
        (["fits", "/nonexistent.yaml"], "/nonexistent.yaml cannot be read"),
        (["order"], "name a queue"),
        (["history", "--recorder", "nowhere"], '--recorder: "nowhere" is no URL'),
        (["wait", "x", "--timeout", "soon"], "--timeout: "),
        (["waiting", "--context", "nobody", "--kubeconfig", "/nonexistent"], "kubeconfig /nonexistent: "),
    ],
)
def test_pyroclast_command_with_invalid_arguments_exits_1_with_the_reason_on_stderr(arguments, message, capsys):
    assert programs.vcctl([*arguments, *NO_SERVER]) == 1
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert message in line
    assert printed.out == ""


@pytest.mark.parametrize("text", ["not: [a, kubeconfig", "[]", ""], ids=["no YAML", "a list", "empty"])
def test_pyroclast_command_reports_a_broken_kubeconfig_on_stderr_and_exits_1(text, tmp_path, capsys):
    (tmp_path / "kubeconfig").write_text(text)
    assert programs.vcctl(["waiting", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 1
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert (line.startswith("vcctl waiting: "), "kubeconfig" in line, printed.out) == (True, True, "")


@pytest.mark.parametrize("text", ["not: [a, kubeconfig", "[]", ""], ids=["no YAML", "a list", "empty"])
def test_compatible_command_reports_a_broken_kubeconfig_in_one_line_and_exits_255(text, tmp_path, capsys):
    (tmp_path / "kubeconfig").write_text(text)
    assert programs.vcctl(["job", "list", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 255
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Failed to list job: ")
    assert "kubeconfig" in line


def test_the_version_is_six_lines(capsys):
    assert programs.vcctl(["version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["API Version", "Version", "Git SHA", "Built At", "Python Version", "Python OS/Arch"]
    assert [line.partition(":")[0] for line in lines] == names


def test_vsub_help_shows_the_default_image_from_the_environment(monkeypatch, capsys):
    monkeypatch.setenv("VOLCANO_DEFAULT_IMAGE", "ours:1")
    assert programs.vsub(["--help"]) == 0
    shown = "the container image of job, overwrite the value of 'VOLCANO_DEFAULT_IMAGE' (default \"ours:1\")"
    assert shown in capsys.readouterr().out


HEAVY = {"numpy", "kubernetes_asyncio", "pydantic", "opentelemetry", "sqlite3", "rich", "typer", "textual", "sqlalchemy"}
HEAVY.add("uvloop")


def loaded_by(code: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)", *arguments]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(said.stdout.splitlines()[-1].split())


def test_importing_the_cli_programs_loads_no_heavy_modules_and_no_command_loads_textual():
    assert not {"aiohttp", *HEAVY} & loaded_by("import pyroclast_cli.programs")
    assert not {"textual", "rich"} & loaded_by("from pyroclast_cli import programs\nprograms.all_commands()")


def test_vcctl_waiting_loads_neither_other_commands_nor_heavy_modules():
    with serving() as url:
        code = "from pyroclast_cli.programs import vcctl\nassert vcctl(sys.argv[1:]) == 0"
        loaded = loaded_by(code, "waiting", "-n", "team", "--master", url)
    assert "pyroclast_cli.views.waiting" in loaded
    others = ("pyroclast_cli.compatible.jobs", "pyroclast_cli.views.explain", "pyroclast_cli.views.history")
    assert not {*HEAVY, *others} & loaded


def test_command_table_names_every_command_but_commands_and_complete():
    assert {each.name for each in programs.all_commands()} == {*programs.PLACES, "commands", "__complete"}
