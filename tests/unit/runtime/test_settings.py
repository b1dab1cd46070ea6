from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from pyroclast.runtime.fields import CommaSeparated, Duration, FeatureGates, Names, format_duration, parse_duration, split_address
from pyroclast.runtime.flags import FlagError, FlagKind, read_flags
from pyroclast.runtime.settings import LeaderElectionSettings, parse


class Settings(LeaderElectionSettings):
    scheduler_name: Names = ("volcano",)
    controllers: CommaSeparated = ("*",)
    schedule_period: Duration = timedelta(seconds=1)
    workers: int = Field(3, gt=0)
    port: int = 8443
    feature_gates: FeatureGates = Field({"A": True})


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("PYROCLAST_"):
            monkeypatch.delenv(name)


def read(*argv: str) -> Settings:
    return parse(Settings, argv, "prog")


def test_settings_without_flags_have_their_defaults() -> None:
    settings = read()
    assert settings.kubeconfig == ""
    assert settings.leader_elect
    assert settings.leader_elect_lease_duration == timedelta(seconds=15)
    assert settings.scheduler_name == ("volcano",)


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["--kubeconfig=/x"], "kubeconfig", "/x"),
        (["--kubeconfig", "/x"], "kubeconfig", "/x"),
        (["--kube_api_qps=7"], "kube_api_qps", 7.0),
        (["--workers", "1", "--workers", "2"], "workers", 2),
        (["--enable-healthz"], "enable_healthz", True),
        (["--leader-elect=false"], "leader_elect", False),
        (["--leader-elect", "--workers=9"], "leader_elect", True),
        (["--scheduler-name=a", "--scheduler-name=b,c"], "scheduler_name", ("a", "b,c")),
        (["--controllers=a,b", "--controllers=c"], "controllers", ("a", "b", "c")),
        (["--schedule-period=250ms"], "schedule_period", timedelta(milliseconds=250)),
        (["--feature-gates=A=false,B=true"], "feature_gates", {"A": False, "B": True}),
        (["--v=5"], "log_level", "debug"),
        (["-v", "4"], "log_level", "info"),
        (["--v=9", "--log-level=error"], "log_level", "error"),
        (["--logtostderr", "--vmodule=a=1", "--stderrthreshold", "INFO", "--log_flush_frequency=5s"], "workers", 3),
        (["--lock-object-namespace=old"], "lease_namespace", "old"),
    ],
)
def test_flags_set_the_fields_of_the_settings(argv: list[str], field: str, value: Any) -> None:
    assert getattr(read(*argv), field) == value


def test_flags_override_environment_variables_which_override_the_config_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("workers: 4\nschedule-period: 5s\nscheduler_name: [x, y]\nport: 1\nleader-elect: false\n")
    monkeypatch.setenv("PYROCLAST_WORKERS", "5")
    monkeypatch.setenv("PYROCLAST_PORT", "2")
    monkeypatch.setenv("PYROCLAST_CONTROLLERS", "a, b")
    monkeypatch.setenv("PYROCLAST_KUBECONFIG", "")
    settings = read("--config", str(file), "--workers=6")
    assert (settings.workers, settings.port, settings.schedule_period) == (6, 2, timedelta(seconds=5))
    assert (settings.scheduler_name, settings.controllers, settings.leader_elect) == (("x", "y"), ("a", "b"), False)
    monkeypatch.setenv("PYROCLAST_CONFIG", str(file))
    assert read().schedule_period == timedelta(seconds=5)


def test_variables_of_kubernetes_service_links_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYROCLAST_PORT", "tcp://10.0.0.1:8080")
    monkeypatch.setenv("PYROCLAST_ADMISSION_SERVICE_HOST", "10.0.0.1")
    assert read().port == 8443


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--workers=many"], 'flag --workers: "many" is not a whole number'),
        (["--workers=0"], 'flag --workers: "0" is not greater than 0'),
        (["--kube-api-qps=fast"], 'flag --kube-api-qps: "fast" is not a number'),
        (["--leader-elect=maybe"], 'flag --leader-elect: "maybe" is neither true nor false'),
        (["--schedule-period=soon"], 'flag --schedule-period: "soon" is not a duration such as 500ms, 15s or 1h30m'),
        (["--healthz-address=here"], 'flag --healthz-address: "here" is not an address such as :8080 or 127.0.0.1:8080'),
        (["--log-level=loud"], "flag --log-level: \"loud\" is not one of 'debug', 'info', 'warning' or 'error'"),
        (["--feature-gates=A"], 'flag --feature-gates: "A" is not of the form Gate=true or Gate=false'),
        (["--workrs=1"], "flag --workrs is unknown; did you mean --workers?"),
        (["--zzz"], "flag --zzz is unknown; --help lists all"),
        (["-workers=1"], "flag -workers is unknown; flags begin with two dashes: --workers"),
        (["--workers"], "flag --workers needs a value"),
        (["file.yaml"], 'argument "file.yaml" is not expected; a switch is set with --name=false'),
        (["--workers=x", "--port=y"], 'flag --workers: "x" is not a whole number; flag --port: "y" is not a whole number'),
        (
            ["--leader-elect-lease-duration=5s"],
            (
                "--leader-elect-retry-period (2s) must be shorter than --leader-elect-renew-deadline (10s), "
                "and that shorter than --leader-elect-lease-duration (5s)"
            ),
        ),
    ],
)
def test_an_invalid_flag_prints_one_line_and_exits_with_2(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        read(*argv)
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", f"prog: {line}\n")


def test_an_invalid_environment_variable_is_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYROCLAST_WORKERS", "x")
    with pytest.raises(SystemExit):
        read()
    assert capsys.readouterr().err == 'prog: environment variable PYROCLAST_WORKERS: "x" is not a whole number\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("workers: x", 'file FILE, workers: "x" is not a whole number'),
        ("workrs: 1", "file FILE: workrs is not a setting; --help lists all"),
        ("config: other", "file FILE: config is not a setting; --help lists all"),
        ("- a", "file FILE: not a mapping of flag names to values"),
        ("a: [", "file FILE: not YAML: did not find expected node content, line 2"),
        (None, "file FILE (--config): No such file or directory"),
    ],
)
def test_an_invalid_config_file_is_named_in_the_error(
    text: str | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit):
        read("--config", str(file))
    assert capsys.readouterr().err == f"prog: {line}\n".replace("FILE", str(file))


def test_an_empty_config_file_leaves_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("")
    assert read("--config", str(file)).workers == 3


def test_help_and_version_are_printed_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h", "--version"):
        with pytest.raises(SystemExit) as caught:
            read(flag)
        assert caught.value.code == 0
    out = capsys.readouterr().out
    assert "--leader-elect-lease-duration  time without renewal after which another replica takes the Lease (default 15s)" in out
    assert out.splitlines()[-1].startswith("prog 0.")


@pytest.mark.parametrize(
    ("text", "want"), [(":80", (None, 80)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:8080", ("::1", 8080))]
)
def test_split_address_returns_host_and_port(text: str, want: tuple[str | None, int]) -> None:
    assert split_address(text) == want


@pytest.mark.parametrize("text", ["", "80", "a:b", "::1:80", ":70000", ":-1"])
def test_split_address_rejects_invalid_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        split_address(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("1h30m", 5400), ("250ms", 0.25), ("-2m", -120), ("0", 0), ("3us", 3e-6), ("3µs", 3e-6)]
)
def test_parse_duration_accepts_go_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1x", "1s 2m", "soon", "--1s", "1s!", "9" * 400 + "h"])
def test_parse_duration_rejects_invalid_texts(text: str) -> None:
    with pytest.raises(ValueError, match=r"a duration such as 500ms, 15s or 1h30m|longer than can be counted"):
        parse_duration(text)


def test_a_duration_field_accepts_text_timedelta_and_zero_but_no_other_number() -> None:
    class Model(BaseModel):
        after: Duration

    assert Model(after="1m").after == timedelta(minutes=1)  # type: ignore[arg-type]
    assert Model.model_validate({"after": 0}).after == timedelta()
    assert Model(after=timedelta(seconds=90)).model_dump_json() == '{"after":"1m30s"}'
    with pytest.raises(ValidationError, match="is not a duration"):
        Model.model_validate({"after": 5})


def test_read_flags_accepts_logtostderr_and_skips_a_stderr_redirection() -> None:
    assert read_flags(["--logtostderr", "--a=b", "2>&1"], {"a": FlagKind.VALUE}) == {"logtostderr": "true", "a": "b"}
    with pytest.raises(FlagError):
        read_flags(["2>&2"], {})
