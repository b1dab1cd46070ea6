"""How Slurm's options and their values are read."""

import pytest

from pyroclast_cli import programs
from pyroclast_cli.flags import Failure
from pyroclast_cli.slurm import values
from pyroclast_cli.slurm.listing import elapsed, node_state, state_of
from pyroclast_cli.slurm.options import options, parse, script_values


@pytest.mark.parametrize(
    ("words", "want", "rest"),
    [
        ("-N4 -n 8 cmd -x", {"nodes": ["4"], "ntasks": ["8"]}, ["cmd", "-x"]),
        ("-Hl -J=name", {"hold": [""], "label": [""], "job-name": ["name"]}, []),
        ("--time=1 --time 2 -- -x", {"time": ["1", "2"]}, ["-x"]),
        ("--exclusive cmd", {"exclusive": [""]}, ["cmd"]),
        ("--exclusive=user cmd", {"exclusive": ["user"]}, ["cmd"]),
        ("--ntasks-per-n 4", {"ntasks-per-node": ["4"]}, []),
        ("- x", {}, ["-", "x"]),
    ],
)
def test_words_are_read_as_getopt_does(words, want, rest):
    assert parse(words.split(), options()) == (want, rest)


@pytest.mark.parametrize("words", ["--no-such", "-y", "--time", "--hold=x", "--mem-"])
def test_a_wrong_word_is_named(words):
    with pytest.raises(Failure, match=r"^line 3: .*--|-y"):
        parse(words.split(), options(), "line 3: ")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        *(("5", "5m0s"), ("5:30", "5m30s"), ("1:00:00", "1h0m0s"), ("1-2", "26h0m0s"), ("1-2:3", "26h3m0s")),
        *(("1-2:3:4", "26h3m4s"), ("UNLIMITED", ""), ("0", "")),
    ],
)
def test_times_are_read_as_slurm_does(text, want):
    assert values.run_time(text) == want


@pytest.mark.parametrize(
    ("function", "text"),
    [
        *((values.run_time, "x"), (values.run_time, "1:2:3:4"), (values.run_time, "1-"), (values.size, "0"), (values.size, "4X")),
        *((values.array, "1-"), (values.array, "3-1"), (values.array, "1:2"), (values.array, "1-9:0"), (values.array, "9" * 99)),
        *((values.dependencies, "afterok"), (values.dependencies, "after:x+5"), (values.dependencies, "expand:x")),
        *((values.node_names, "n[1-99999]"), (values.node_names, ""), (values.feature_terms, "[a*2]"), (values.gpus, "a:b")),
        *((values.warning_signal, "R:USR1"), (values.warning_signal, "99"), (values.exported, "a b"), (values.moment, "noon")),
    ],
)
def test_a_wrong_value_is_refused(function, text):
    with pytest.raises(ValueError, match=r"\w"):
        function(text, {}) if function is values.exported else function(text)


def test_values_become_fields():
    assert values.size("500") == "500Mi"
    assert values.size("2G", times=3) == "6Gi"
    assert values.node_names("a[08-10],b") == ["a08", "a09", "a10", "b"]
    assert values.warning_signal("B:12@30") == {"signal": "USR2", "seconds": 30}
    assert values.exported('A=1,B="x,y",C,ALL,D', {"C": "3"}) == {"A": "1", "B": "x,y", "C": "3"}
    assert [each["condition"] for each in values.dependencies("after:a:b,afternotok:c")] == ["Started", "Started", "Failed"]


def test_long_input_is_read_in_time_that_grows_with_its_length():
    script = "#!/bin/sh\n" + "#SBATCH --comment=x\n" * 20_000 + "true\n"
    assert len(script_values(script, options())["comment"]) == 20_000
    values.exported("A=1," * 20_000, {})


def test_columns_have_slurms_forms():
    assert [elapsed(seconds) for seconds in (5, 65, 3661, 90061)] == ["0:05", "1:05", "1:01:01", "1-01:01:01"]
    free = [("Ready", 1, "7250m"), ("Ready", 1, "0"), ("Ready", 0, "8"), ("Cordoned", 2, "1"), ("NotReady", 0, "8")]
    rows = [{"state": state, "pods": pods, "cpuFree": cpus} for state, pods, cpus in free]
    assert [node_state(row) for row in rows] == ["mix", "alloc", "idle", "drng", "down"]
    failed = {"status": {"state": {"phase": "Failed", "reason": "RunTimeLimit"}}}
    assert [state_of(job) for job in ({}, failed, {"status": {"state": {"phase": "Terminated"}}})] == ["PD", "TO", "CA"]


def test_each_option_has_one_outcome_and_a_letter_of_its_own():
    for command in ("sbatch", "srun"):
        letters = [each.short for each in options() if each.short and command in each.commands]
        assert len(letters) == len(set(letters))
    assert [each.name for each in options() if sum(map(bool, (each.means, each.accepted, each.refused))) != 1] == []


@pytest.mark.parametrize("name", ["sbatch", "srun", "run", "shell", "squeue", "sacct", "sinfo", "scancel"])
def test_each_command_has_help(name, capsys):
    assert programs.vcctl([name, "--help"]) == 0
    assert "Options:\n" in capsys.readouterr().out


def test_the_name_by_which_the_program_is_started_chooses_the_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/home/ada/bin/squeue", "--help"])
    assert programs.vcctl() == 0
    assert capsys.readouterr().out.startswith("Usage:\n  squeue ")
