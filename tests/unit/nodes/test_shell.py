import pytest

from pyroclast_standalone.nodes.shell import TERMINATED, Run, Stop, simulate

FOREVER = None
PRETENDS = "simulated node: {} does not run here and counts as a success after 5 s; process mode runs it"


def run(script: str, **environment: str) -> Run:
    return simulate(["sh", "-c", script], {"HOSTNAME": "job-worker-3", **environment}, unknown_seconds=5)


@pytest.mark.parametrize(
    ("script", "want_seconds", "want_status"),
    [
        pytest.param("sleep 5", 5, 0, id="sleep"),
        pytest.param("sleep 1m", 60, 0, id="minutes"),
        pytest.param("sleep 0.5h 1s", 1801, 0, id="sum-of-intervals"),
        pytest.param("sleep infinity", FOREVER, 0, id="for-ever"),
        pytest.param("sleep soon", 0, 1, id="no-interval"),
        pytest.param("exit 3", 0, 3, id="exit"),
        pytest.param("exit 300", 0, 44, id="exit-is-a-byte"),
        pytest.param("sleep 2; exit 3", 2, 3, id="sequence"),
        pytest.param("sleep 2\n# a comment\nexit 4", 2, 4, id="lines"),
        pytest.param("false && sleep 9", 0, 1, id="and-stops"),
        pytest.param("true && sleep 1 || exit 7", 1, 0, id="or-not-taken"),
        pytest.param("false || exit 7", 0, 7, id="or-taken"),
        pytest.param("set -e; false; sleep 9", 0, 1, id="errexit"),
        pytest.param("set -e; false || true; sleep 1", 1, 0, id="errexit-spares-conditions"),
        pytest.param("set -e; false && true || false; sleep 9", 0, 1, id="errexit-of-the-last-alternative"),
        pytest.param('[ "$HOSTNAME" = other ] && exit 3; sleep 5', 5, 0, id="condition"),
        pytest.param("test $HOSTNAME != other && exit 3; sleep 5", 0, 3, id="condition-holds"),
        pytest.param("false; exit $?", 0, 1, id="status"),
        pytest.param("exec sleep 2", 2, 0, id="exec"),
        pytest.param("python train.py --epochs 3", 5, 0, id="unknown-command"),
        pytest.param("/usr/sbin/sshd -D", FOREVER, 0, id="server"),
        pytest.param("sleep 1; mpiexec -np 2 hello; exit 2", 6, 2, id="mpi-launcher"),
        pytest.param("while true; do sleep 1; done", 5, 0, id="loop-is-not-understood"),
        pytest.param("sleep 9 & wait", 5, 0, id="background-is-not-understood"),
        pytest.param("echo 'no end", 5, 0, id="open-quote-succeeds"),
        pytest.param("sh -c 'exit 6' || exit 8", 0, 8, id="nested-shell"),
    ],
)
def test_simulated_script_has_the_duration_and_exit_code_of_a_shell(script, want_seconds, want_status):
    done = run(script)
    assert (done.seconds, done.exit_code) == (want_seconds, want_status)


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("echo a; sleep 2; echo b", [(0, "a"), (2, "b")], id="when"),
        pytest.param("echo -n a; echo b; echo -e 'c\\nd'", [(0, "ab"), (0, "c"), (0, "d")], id="parts-of-lines"),
        pytest.param("echo ${HOSTNAME} ${X:-none} $NONE.", [(0, "job-worker-3 none .")], id="parameters"),
        pytest.param("""echo "a  $B" '$B' $B \\$B""", [(0, "a  x  y $B x y $B")], id="quotes"),
        pytest.param("""echo "it's \\"so\\"" ""  .""", [(0, 'it\'s "so"  .')], id="quotes-in-quotes"),
        pytest.param("A=1 B=; export C=3; echo $A$B$C", [(0, "13")], id="assignments"),
        pytest.param("echo lost > /data/f; echo kept 2>/dev/null; echo too >&2", [(0, "kept"), (0, "too")], id="redirects"),
        pytest.param("""echo 5$ '$(a) `b`' "\\$(c)" \\`""", [(0, "5$ $(a) `b` $(c) `")], id="no-substitution"),
        pytest.param("sleep 1; train --lr 1; echo done", [(1, PRETENDS.format("train")), (6, "done")], id="unknown-command"),
        pytest.param("seq 3 | wc -l", [(0, PRETENDS.format("this script uses '|', which"))], id="pipe"),
        pytest.param("echo $(date)", [(0, PRETENDS.format("this script uses the output of a command, which"))], id="output"),
        pytest.param("echo a; for i in 1; do :; done", [(0, PRETENDS.format("this script uses 'for', which"))], id="loop"),
        pytest.param("echo 'no end", [(0, PRETENDS.format('this script uses "\'", which'))], id="open-quote"),
        pytest.param(
            "echo a$(date)", [(0, PRETENDS.format("this script uses the output of a command, which"))], id="output-within"
        ),
        pytest.param("echo ${X##*-}", [(0, PRETENDS.format("this script uses '${X##*-}', which"))], id="pattern"),
    ],
)
def test_simulated_script_prints_lines_at_their_times(script, want):
    assert list(run(script, B="x  y").lines) == want


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("sleep 100", TERMINATED, id="by-default-at-once"),
        pytest.param("trap 'exit 7' TERM; sleep 100", Stop(0, 7), id="trap-exits"),
        pytest.param("trap 'sleep 2; exit 0' SIGTERM; sleep 100", Stop(2, 0), id="trap-takes-time"),
        pytest.param("trap '' TERM; sleep 100", None, id="ignored"),
        pytest.param("trap 'echo no' TERM; sleep 100", None, id="trap-goes-on"),
    ],
)
def test_simulated_script_handles_sigterm_by_its_trap(script, want):
    assert run(script).stop == want


def test_container_without_a_command_runs_forever():
    assert simulate([], {}).seconds is None


def test_text_that_doubles_itself_never_ends():
    assert run("f=x;" + "f=$f$f;" * 60 + "echo $f").seconds is None


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["${", "${a-", "'", '"', "\\", "$a", "a=1;", "&&"])
def test_time_of_a_long_script_grows_linearly(part):
    run("echo " + part * (400_000 // len(part)))
