"""Seals: what is unpickled and what is not; and what the runner leaves."""

import asyncio
import base64
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import pytest

from pyroclast.api import keys
from pyroclast.api.types import Key
from pyroclast_client import errors, payload
from pyroclast_client.collecting import Collector
from pyroclast_client.modules import project_archive
from pyroclast_client.payload import Arguments, packed, secret_data
from pyroclast_client.podreading import pod_of
from pyroclast_client.results import decoded, stored_value
from pyroclast_client.runner import sealing

KEY = b"k" * 32


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def read(text, index=0):
    """The outcome of a pod with this termination message, as the handle of its Job reads it."""
    ended = {"exitCode": 0, "message": text}
    container = {"name": "main", "state": {"terminated": ended}}
    labels = {keys.TASK_INDEX: str(index)}
    metadata = {"name": "p", "uid": "uid", "labels": labels, "ownerReferences": [{"uid": "job"}]}
    spec, status = {"containers": [{"name": "main"}]}, {"phase": "Succeeded", "containerStatuses": [container]}
    pod = pod_of({"metadata": metadata, "spec": spec, "status": status}, "job")
    return asyncio.run(Collector(None, Key("n", "j"), KEY, "", "").one(pod))


def sealed(payload, *, key=KEY, kind="value", index=0, attempt="uid", place="inline"):
    return sealing.sealed(key, kind, "pickle", place, index, attempt, payload)


def test_sealed_value_is_decoded():
    assert read(sealed(pickle.dumps({"a": 1}))).value == {"a": 1}


@pytest.mark.parametrize("kind", ["value", "error"])
def test_task_with_the_json_serializer_unpickles_neither_results_nor_exceptions(tmp_path, kind):
    evil = pickle.dumps(Evil(tmp_path / "made"))
    raised = {"type": "E", "message": "m", "traceback": "t", "pickle": base64.b64encode(evil).decode()}
    text = sealed(evil if kind == "value" else json.dumps(raised).encode(), kind=kind)
    message = sealing.opened(KEY, text, 0, "uid")
    outcome = decoded(message, sealing.inline(message), what="w", name="f", is_json=True)
    wanted = {"value": errors.ForgedResult, "error": errors.TaskError}
    assert isinstance(outcome.error, wanted[kind])
    assert outcome.error.__cause__ is None
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"key": b"another"}, id="key"),
        pytest.param({"index": 1}, id="index"),
        pytest.param({"attempt": "another"}, id="pod"),
    ],
)
def test_result_sealed_for_another_key_index_or_pod_is_not_unpickled(tmp_path, change):
    text = sealed(pickle.dumps(Evil(tmp_path / "made")), **change)
    error = read(text).error
    assert isinstance(error, errors.ForgedResult)
    assert "was not unpickled" in str(error)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("field", [*sealing.FIELDS, "mac", "data"])
def test_altered_field_of_a_result_message_is_detected_before_unpickling(tmp_path, field):
    message = json.loads(sealed(pickle.dumps(3)))
    evil = pickle.dumps(Evil(tmp_path / "made"))
    message[field] = base64.b64encode(evil).decode() if field == "data" else "x"
    assert isinstance(read(json.dumps(message)).error, errors.ForgedResult)
    assert not (tmp_path / "made").exists()


def test_missing_or_changed_result_frames_are_detected(tmp_path):
    payload = os.urandom(20_000)
    lines = sealing.frames(payload)
    assert len(lines) == sealing.number_of_frames(len(payload)) == 4
    assert sealing.unframed(["before", *lines, "after"]) == payload
    assert sealing.unframed(["x" + lines[0], *lines[1:]]) == payload  # behind a line without an end
    assert sealing.unframed(lines[1:]) is None
    assert sealing.unframed(lines[:-1]) is None
    assert sealing.unframed([lines[0], lines[2], lines[3]]) is None
    found = sealing.opened(KEY, sealed(payload, place="log"), 0, "uid")
    evil = pickle.dumps(Evil(tmp_path / "made"))
    assert isinstance(decoded(found, evil, what="w", name="f").error, errors.ForgedResult)
    assert isinstance(decoded(found, None, what="w", name="f").error, errors.ResultGone)
    assert not (tmp_path / "made").exists()


def test_a_forged_value_in_the_store_is_not_unpickled(tmp_path):
    store = f"file://{tmp_path}/store"
    arguments = {"entry": "a", "number": 0, "what": "w"}
    with pytest.raises(errors.ResultGone, match="not in the store"):
        stored_value(KEY, store, sealing.got(store, "v"), **arguments)
    good, evil = pickle.dumps(3), pickle.dumps(Evil(tmp_path / "made"))
    text = sealing.sealed(KEY, "value", "pickle", "store", 0, "a", good)
    sealing.put(store, "v", text.encode() + b"\n" + good)
    assert stored_value(KEY, store, sealing.got(store, "v"), **arguments) == 3
    for forged in (text.encode() + b"\n" + evil, b"{}\n" + evil, evil):
        sealing.put(store, "v", forged)
        with pytest.raises(errors.ForgedResult):
            stored_value(KEY, store, sealing.got(store, "v"), **arguments)
    assert not (tmp_path / "made").exists()


def run(tmp_path, function, *arguments, index=0, message="message", timeout=0, **options):
    """What the real runner leaves, started as in a pod: the message, what it printed, and its status."""
    payload = packed(function, [Arguments(each) for each in arguments or ((),)], name="f", job="j", **options)
    folder = tmp_path / "secret"
    folder.mkdir(exist_ok=True)
    data = secret_data({"payload": payload.data}, options.get("store"), KEY)
    for name, text in data.items():
        (folder / name).write_bytes(base64.b64decode(text))
    environment = {"PATH": os.environ["PATH"], "PYROCLAST_INDEX": str(index), "PYROCLAST_POD_UID": "uid"}
    environment["PYROCLAST_TERMINATION_LOG"] = str(tmp_path / message)
    if timeout:
        environment["PYROCLAST_TIMEOUT"] = str(timeout)
    command = [sys.executable, str(folder / "runner.pyz")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    (tmp_path / "stderr").write_text(done.stderr)
    return (tmp_path / message).read_text(), done.stdout, done.returncode


def test_the_runner_calls_the_function_of_its_index(tmp_path):
    text, printed, status = run(tmp_path, lambda number: print("is", number) or number * 2, (1,), (2,), (3,), index=1)
    assert read(text, index=1).value == 4
    assert (printed, status) == ("is 2\n", 0)


def test_cloudpickle_is_loaded_only_for_what_pickle_cannot_move(tmp_path):
    is_loaded = "'cloudpickle' in __import__('sys').modules"
    assert read(run(tmp_path, eval, (is_loaded,))[0]).value is False
    each = (pickle.dumps(eval), pickle.dumps(((is_loaded,), {})))
    assert read(run(tmp_path, None, each)[0]).value is False, "a call of an executor"

    class Local:
        number = 3

    assert read(run(tmp_path, Local)[0]).value.number == 3
    assert read(run(tmp_path, eval, ("type('T', (), {'number': 4})",))[0]).value.number == 4


def test_result_message_fits_in_4096_bytes_and_larger_values_go_to_the_log(tmp_path):
    limit = sealing.INLINE_BYTES
    value = b"x" * (limit - len(pickle.dumps(b"x" * 1000)) + 1000)
    text, printed, _ = run(tmp_path, lambda: value)
    assert len(text) <= 4096
    assert printed == ""
    assert len(read(text).value) == len(value)
    text, printed, _ = run(tmp_path, lambda: value + b"xx")
    assert sealing.unframed(printed.split("\n")) is not None


def test_json_result_that_contains_a_pickle_is_not_unpickled(tmp_path):
    text = sealing.sealed(KEY, "value", "json", "inline", 0, "uid", pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(ValueError, match="decode"):
        read(text)
    assert not (tmp_path / "made").exists()


def test_json_serializer_returns_json_values_and_fails_on_other_values(tmp_path):
    text, _, _ = run(tmp_path, lambda: {"a": [1, None]}, serializer="json")
    assert read(text).value == {"a": [1, None]}
    text, _, status = run(tmp_path, lambda: {1, 2}, serializer="json")
    assert status == 65
    assert "not JSON serializable" in str(read(text).error)


def test_exception_of_an_unknown_class_becomes_a_task_error_with_its_text(tmp_path):
    def fail():
        import types

        module = types.ModuleType("nowhere")
        error = type("Odd", (Exception,), {"__module__": "nowhere"})
        module.Odd = error
        import sys as system

        system.modules["nowhere"] = module
        raise error("very odd")

    text, _, status = run(tmp_path, fail)
    error = read(text).error
    assert isinstance(error, errors.TaskError)
    assert error.__cause__ is None
    assert "Odd: very odd" in str(error)
    assert status == 1


def test_failing_call_is_retried_in_its_pod_until_it_succeeds(tmp_path):
    marker = tmp_path / "tries"

    def flaky():
        with open(marker, "a") as file:
            file.write("x")
        if marker.stat().st_size < 3:
            raise OSError("not yet")
        return marker.stat().st_size

    text, _, status = run(tmp_path, flaky, tries=3)
    assert (read(text).value, status) == (3, 0)


@pytest.mark.parametrize(("grace", "left"), [({}, 30.0), ({"PYROCLAST_GRACE": "120"}, 120.0)])
def test_checkpoint_receives_the_seconds_left_and_the_next_pod_starts_from_it(tmp_path, grace, left):
    def wait(started=None):
        import time

        if started is not None:
            return started
        while True:
            print("waiting", flush=True)  # the signal comes while it prints, mostly
            time.sleep(0.0001)

    def checkpoint(*, seconds_left):
        return {"started": seconds_left}

    folder = tmp_path / "secret"
    folder.mkdir()
    store = f"file://{tmp_path}/store"
    payload = packed(wait, [Arguments()], name="f", job="j", store=store, checkpoint=checkpoint)
    for name, text in secret_data({"payload": payload.data}, store, KEY).items():
        (folder / name).write_bytes(base64.b64decode(text))
    environment = {"PYROCLAST_POD_UID": "uid", "PYROCLAST_TERMINATION_LOG": str(tmp_path / "message"), **grace}
    command = [sys.executable, str(folder / "runner.pyz")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as pod:
        assert pod.stdout.readline() == "waiting\n"
        pod.terminate()
        pod.communicate(timeout=30)
        assert pod.returncode == 75
    subprocess.run(command, env=environment, check=True)
    assert read((tmp_path / "message").read_text()).value == left


STATE = {"step": 0}


def count_up(step=0):
    import time

    STATE["step"] = step
    print(f"from {step}", flush=True)
    while STATE["step"] < 1000:
        STATE["step"] += 1
        print("counting", flush=True)
        time.sleep(0.01)


def where_it_is(step=0):
    return {"step": STATE["step"]}


def test_a_function_and_its_checkpoint_see_the_same_globals_and_a_foreign_checkpoint_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(count_up, "__module__", "__main__")  # as in a script, whose functions are pickled by value
    monkeypatch.setattr(where_it_is, "__module__", "__main__")
    store, folder = f"file://{tmp_path}/store", tmp_path / "secret"
    folder.mkdir()
    payload = packed(count_up, [Arguments()], name="f", job="j", store=store, checkpoint=where_it_is)

    def begin(key):
        for name, text in secret_data({"payload": payload.data}, store, key).items():
            (folder / name).write_bytes(base64.b64decode(text))
        variables = {"PYROCLAST_POD_UID": "uid", "PYROCLAST_TERMINATION_LOG": str(tmp_path / "message")}
        command = [sys.executable, str(folder / "runner.pyz")]
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as pod:
            first = pod.stdout.readline()
            for _ in range(3):
                pod.stdout.readline()
            pod.terminate()
            return first, pod.communicate(timeout=30)[1]

    assert begin(KEY)[0] == "from 0\n"
    assert int(begin(KEY)[0].split()[1]) >= 3
    first, told = begin(b"another Job of this name")
    assert first == "from 0\n"
    assert "starting anew, as the checkpoint in the store is not of this Job" in told


def test_a_call_over_its_timeout_ends_for_good_and_raises_timed_out(tmp_path):
    def slow():
        import time

        time.sleep(600)

    text, _, status = run(tmp_path, slow, timeout=0.2, tries=3)
    assert status == 124
    error = read(text).error
    assert isinstance(error, errors.TimedOut)
    assert "ran longer than its timeout of 0.2 s, and does not run again" in str(error)


def test_a_call_whose_result_cannot_be_pickled_is_not_repeated(tmp_path):
    def gives_a_generator():
        print("side effect")
        return (number for number in range(3))

    text, printed, status = run(tmp_path, gives_a_generator, tries=3)
    assert (printed, status) == ("side effect\n", 65)
    error = read(text).error
    assert isinstance(error, errors.TaskError)
    assert "returned what cannot be sent" in str(error)


def test_an_exception_with_much_data_keeps_its_type(tmp_path):
    def fail():
        error = KeyError("the true reason", os.urandom(10))
        error.data = os.urandom(2 << 20)
        raise error

    text, printed, _ = run(tmp_path, fail)
    found = sealing.opened(KEY, text, 0, "uid")
    payload = sealing.inline(found) if found["place"] == "inline" else sealing.unframed(printed.splitlines())
    error = decoded(found, payload, what="w", name="f").error
    assert isinstance(error, errors.TaskError)
    assert isinstance(error.__cause__, KeyError)
    assert error.__cause__.args == ("the true reason",)


@pytest.mark.parametrize("code", [65, 70, 124])
def test_an_exit_code_with_a_meaning_of_its_own_is_a_failure_of_the_function(tmp_path, code):
    def leave():
        raise SystemExit(code)

    assert run(tmp_path, leave)[2] == 1


def test_system_exit_code_becomes_the_exit_code_of_the_pod(tmp_path):
    def leave():
        raise SystemExit(7)

    text, _, status = run(tmp_path, leave)
    assert status == 7
    assert isinstance(read(text).error, errors.TaskError)


def test_module_missing_in_the_image_is_named_in_the_error(tmp_path):
    def load():
        import no_such_module  # noqa: F401

    text, _, _ = run(tmp_path, load)
    assert "No module named 'no_such_module'" in str(read(text).error)


def test_missing_package_raises_version_mismatch_and_another_version_only_warns(tmp_path, monkeypatch):
    place = tmp_path / "site"
    (place / "odd_tools-1.2.dist-info").mkdir(parents=True)
    (place / "odd_tools-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-tools\nVersion: 1.2\n")
    (place / "odd_tools-1.2.dist-info" / "RECORD").write_text("odd.py,,\n")
    (place / "odd.py").write_text("def three():\n    return 3\n")
    monkeypatch.syspath_prepend(str(place))
    payload._distributions.cache_clear()
    import odd

    assert payload.used_packages([pickle.dumps(odd.three)]) == {"odd-tools": "1.2"}
    text, _, _ = run(tmp_path, odd.three)  # the pod does not see the folder
    error = read(text).error
    assert isinstance(error, errors.VersionMismatch)
    assert "as the image lacks odd-tools 1.2: ModuleNotFoundError: No module named 'odd'. Use an image" in str(error)
    text, _, _ = run(tmp_path, lambda: (json.dumps([1]), pytest.__name__))
    assert read(text).value == ("[1]", "pytest")
    assert (tmp_path / "stderr").read_text() == ""
    there = payload.importlib.metadata.version("pytest")
    monkeypatch.setattr(payload.importlib.metadata, "version", lambda name: "0.1")
    text, _, _ = run(tmp_path, lambda: pytest.__name__)  # another version is told, and may do
    assert read(text).value == "pytest"
    assert (tmp_path / "stderr").read_text() == f"pyroclast: the image has pytest {there} and the client 0.1\n"
    payload._distributions.cache_clear()


def test_project_modules_are_archived_for_the_pod_and_excluded_files_are_not(tmp_path, monkeypatch):
    package = tmp_path / "project" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("def three():\n    return 3\n")
    (tmp_path / "project" / "data.txt").write_text("data")
    monkeypatch.syspath_prepend(str(tmp_path / "project"))
    import mine.part

    archive = project_archive(tmp_path / "project", include=["*.txt"])
    text, _, _ = run(tmp_path, mine.part.three, modules=archive)
    assert read(text).value == 3
    assert project_archive(tmp_path / "project", exclude=["mine/*"]) is None
    assert project_archive(tmp_path / "elsewhere") is None


@pytest.mark.parametrize(("include", "names"), [(["*.txt"], {"kept.txt"}), (["*.txt", "made.txt"], {"kept.txt", "made.txt"})])
def test_gitignored_files_are_left_out_of_the_archive_unless_included_by_name(tmp_path, include, names):
    (tmp_path / ".gitignore").write_text("made.*\n")
    for name in ("made.txt", "kept.txt"):
        (tmp_path / name).write_text(name)
    with zipfile.ZipFile(io.BytesIO(project_archive(tmp_path, include=include))) as archive:
        assert set(archive.namelist()) == names


def test_large_payload_is_written_once_to_the_store_and_refused_without_a_store(tmp_path):
    blob = os.urandom(800 << 10)
    store = f"file://{tmp_path}/store"
    text, _, _ = run(tmp_path, len, (blob,), store=store)
    assert read(text).value == 800 << 10
    assert len(list((tmp_path / "store" / "code").iterdir())) == 1
    payload = packed(lambda data: 1, [Arguments((blob,))], name="f", job="j")
    with pytest.raises(errors.Usage, match="store="):
        secret_data({"payload": payload.data}, None)
