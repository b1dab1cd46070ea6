import pytest

from pyroclast_standalone.nodes.shell.runs import TERMINATED, Run, Stop, simulate

FOREVER = None
FILES = {"/etc/volcano/worker.host": "w-0.job\nw-1.job\n"}


def run(script: str, **environment: str) -> Run:
    return simulate(["sh", "-c", script], {"HOSTNAME": "job-worker-3", **environment}, read_file=FILES.get, unknown_seconds=5)


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
        pytest.param("if [ 3 -gt 2 ]; then sleep 1; else sleep 2; fi", 1, 0, id="if"),
        pytest.param("if false; then :; elif [ a = b ]; then sleep 1; else sleep 2; fi", 2, 0, id="elif-else"),
        pytest.param("for i in 1 2 3; do sleep $i; done", 6, 0, id="for"),
        pytest.param("i=0; while [ $i -lt 4 ]; do sleep 1; i=$((i+1)); done", 4, 0, id="counting"),
        pytest.param("until true; do sleep 1; done; exit 2", 0, 2, id="until"),
        pytest.param("while true; do sleep 1; done", FOREVER, 0, id="endless-loop"),
        pytest.param("while true; do sleep 1; break; done; exit 5", 1, 5, id="break"),
        pytest.param("sleep 3 & sleep 1; wait", 3, 0, id="background"),
        pytest.param("(exit 4); exit $?", 0, 4, id="subshell"),
        pytest.param("! true", 0, 1, id="negation"),
        pytest.param("exec sleep 2", 2, 0, id="exec"),
        pytest.param("timeout 2 sleep 10", 2, 124, id="timeout"),
        pytest.param("kill -9 0", 0, 137, id="kills-itself"),
        pytest.param("python train.py --epochs 3", 5, 0, id="unknown-command"),
        pytest.param("/usr/sbin/sshd -D", FOREVER, 0, id="server"),
        pytest.param("mkdir -p /var/run/sshd; /usr/sbin/sshd; mpiexec -np 2 hello", 5, 0, id="mpi-launcher"),
        pytest.param("greet() { echo; }; greet", 5, 0, id="not-understood-succeeds"),
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
        pytest.param("echo -n a; echo b; printf '%s-%s\\n' 1 2", [(0, "ab"), (0, "1-2")], id="parts-of-lines"),
        pytest.param("echo ${HOSTNAME##*-} ${X:-none} ${#HOSTNAME}", [(0, "3 none 12")], id="parameters"),
        pytest.param("""echo "a  $B" '$B' $B""", [(0, "a  x  y $B x y")], id="quotes"),
        pytest.param('echo $(cat /etc/volcano/worker.host | tr "\\n" ",")', [(0, "w-0.job,w-1.job,")], id="volume-file"),
        pytest.param("echo hi > /tmp/f; cat /tmp/f /none", [(0, "hi"), (0, "cat: /none: No such file or directory")], id="files"),
        pytest.param("echo lost > /dev/null; echo kept 2>/dev/null", [(0, "kept")], id="redirects"),
        pytest.param("seq 1 5 | grep -v 3 | head -n 2; seq 3 | wc -l", [(0, "1"), (0, "2"), (0, "3")], id="pipes"),
        pytest.param("printenv B", [(0, "x  y")], id="environment"),
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


def test_endless_loop_is_recognised_as_running_forever():
    assert run("while :; do :; done").seconds is None
    assert run("f='x'; while :; do f=$f$f; done").seconds is None
