"""The configuration file: the original's form, refusals that say where and why, and the command that checks a file."""

import json
import re
from functools import partial

import pytest

from pyroclast.runtime.errors import StartFailure
from pyroclast_scheduler.__main__ import main
from pyroclast_scheduler.session.configuration import DEFAULT_CONFIGURATION, BadConfiguration, UnknownName, parse
from pyroclast_scheduler.shell import configfile
from pyroclast_scheduler.shell.configfile import ConfigurationFile
from tests.unit.scheduler.deciding import configured

ACTIONS = {"enqueue", "allocate", "backfill"}
PLUGINS = {"gang", "drf", "proportion"}
GOOD = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"


def read(text, *, skip_unknown_plugins=False):
    return parse(text, actions=ACTIONS, plugins=PLUGINS, skip_unknown_plugins=skip_unknown_plugins)


def test_the_default_configuration_is_read_without_warnings():
    found = configured(DEFAULT_CONFIGURATION)
    assert found.actions == ("enqueue", "allocate", "backfill")
    assert [[entry.name for entry in tier] for tier in found.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]
    assert found.warnings == ()


def test_plugin_flags_are_enabled_unless_disabled_except_hierarchy_and_cluster_order():
    plugins = "{name: gang, enableJobReady: false}, {name: drf, enableHierarchy: true}"
    ((gang, drf),) = read(f"actions: allocate\ntiers: [{{plugins: [{plugins}]}}]").tiers
    assert "enableJobReady" not in gang.enabled
    assert "enablePredicate" in gang.enabled
    assert not gang.enabled & {"enableHierarchy", "enabledClusterOrder"}
    assert "enableHierarchy" in drf.enabled


def test_the_first_entry_of_an_action_gives_its_arguments():
    found = read("actions: allocate\nconfigurations: [{name: allocate, arguments: {a: 1}}, {name: allocate, arguments: {a: 2}}]")
    assert found.action_arguments == {"allocate": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        pytest.param("actions: [", 1, "not YAML", id="not-yaml"),
        pytest.param("tiers: []\nactions: allocate, fly", 2, "failed to find Action fly", id="unknown-action"),
        pytest.param("actions: allocat", 1, "failed to find Action allocat; did you mean allocate?", id="action-with-a-typo"),
        pytest.param("actions: allocate,", 1, "failed to find Action ", id="empty-action"),
        pytest.param("", 0, "failed to find Action ", id="empty"),
        pytest.param("- a", 1, "mapping", id="a-list"),
        pytest.param("actions: allocate\ntiers: 3", 2, "tiers", id="tiers"),
        pytest.param("actions: allocate\ntiers:\n- plugins:\n  - {name: [a]}", 4, "name of a plugin", id="name-is-a-list"),
        pytest.param("actions: allocate\ntiers:\n- plugins:\n  - {name: gang, arguments: 3}", 4, "mapping", id="arguments"),
        pytest.param("actions: allocate\nmetrics: [a]", 2, "metrics", id="metrics"),
        pytest.param("actions: allocate\nmetrics: {address: [a]}", 2, "metrics", id="metrics-of-a-list"),
        pytest.param("actions: allocate\nconfigurations:\n- {name: allocate, arguments: 3}", 3, "mapping", id="action-arguments"),
        pytest.param("actions: allocate\nconfigurations:\n- {name: {}}", 3, "name of an action", id="action-name"),
        pytest.param("actions: " + "[" * 3000, 0, "not YAML: nested too deeply", id="too-deep"),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobReady: 7", 4, "true or false", id="flag"
        ),
        pytest.param(
            "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n  - {name: proportion}",
            3,
            "proportion and drf with hierarchy enabled conflicts",
            id="conflict",
        ),
    ],
)
def test_an_invalid_configuration_is_refused_with_line_and_reason(text, line, reason):
    with pytest.raises(BadConfiguration) as caught:
        read(text)
    assert reason in caught.value.reason
    assert caught.value.line == line


TYPOS = """\
actions: allocate
tiers:
- plugins:
  - {name: gnag}
  - {name: gang, enableJobRaedy: true}
- plugins: [{name: magic}]
"""


def test_plugins_that_do_not_exist_are_refused_with_the_nearest_name():
    with pytest.raises(UnknownName) as caught:
        read(TYPOS)
    assert str(caught.value) == (
        "line 4: plugin 'gnag' does not exist; did you mean gang?; line 6: plugin 'magic' does not exist "
        "(there are: drf, gang, proportion; --skip-unknown-plugins ignores such entries)"
    )


def test_unknown_plugins_that_are_skipped_and_unknown_flags_give_warnings_with_their_line():
    assert read(TYPOS, skip_unknown_plugins=True).warnings == (
        "line 5: gang: unknown flag enableJobRaedy; did you mean enableJobReady?",
        "line 4: Failed to get plugin gnag.",
        "line 6: Failed to get plugin magic.",
    )


def file_of(path, **settings):
    """The configuration file at `path`, and the refusals that it reports."""
    refusals = []
    parses = partial(read, skip_unknown_plugins=settings.get("allows_unknown", False))
    return ConfigurationFile(
        str(path), parses, warned=lambda _: None, refused=lambda *each: refusals.append(each), **settings
    ), refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [("actions: allocat", "did you mean allocate?"), (TYPOS, "plugin 'gnag' does not exist; did you mean gang?")],
    ids=["action", "plugin"],
)
def test_a_start_fails_for_a_name_that_does_not_exist_and_a_reload_keeps_the_last_good_configuration(
    monkeypatch, tmp_path, text, message
):
    monkeypatch.setattr(configfile, "DEFAULT_CONFIGURATION", GOOD)
    path = tmp_path / "scheduler.conf"
    path.write_text(text)
    file, refusals = file_of(path)
    with pytest.raises(StartFailure, match=re.escape(message)):
        file.load()
    path.write_text("actions: enqueue")
    file, refusals = file_of(path)
    assert file.load()
    path.write_text(text)
    assert not file.load()
    assert file.current.actions == ("enqueue",)
    ((refused, reason),) = refusals
    assert (refused, message in reason) == (str(path), True)


def test_a_start_that_skips_unknown_plugins_loads_the_rest_and_decides_by_the_built_in_configuration_without_an_action(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(configfile, "DEFAULT_CONFIGURATION", GOOD)
    path = tmp_path / "scheduler.conf"
    path.write_text(TYPOS)
    file, _ = file_of(path, allows_unknown=True)
    assert file.load()
    assert len(file.current.warnings) == 3
    path.write_text("actions: allocat")
    file, refusals = file_of(path, allows_unknown=True)
    assert not file.load()
    assert (file.current.actions, len(refusals)) == (("allocate",), 1)


def test_an_unreadable_file_at_start_does_not_make_a_later_typo_end_the_service(monkeypatch, tmp_path):
    monkeypatch.setattr(configfile, "DEFAULT_CONFIGURATION", GOOD)
    path = tmp_path / "scheduler.conf"
    file, refusals = file_of(path)
    assert not file.load()
    path.write_text(TYPOS)
    assert not file.load()
    assert len(refusals) == 2


def test_settings_without_effect_give_warnings_with_their_line():
    found = read(
        "actions: allocate\ntires: []\ntiers:\n- plugins:\n  - {name: gang, enableHierarchy: true}\n"
        "  - {name: drf, enabledClusterOrder: true}\nconfigurations: [{name: fly, arguments: {a: 1}}]"
    )
    assert found.warnings == (
        "line 2: tires is unknown; did you mean tiers?",
        "line 5: gang: enableHierarchy has no effect",
        "line 6: drf: enabledClusterOrder has no effect",
        "line 7: arguments of action fly, which is not among the actions",
    )


def test_empty_and_odd_yaml_values_are_read_as_volcano_reads_them():
    found = read(
        "actions: >\n  enqueue,\n  allocate\ntiers:\n-\n- plugins:\n- plugins: []\n"
        "- plugins: [~, {name: 5}, {name: gang, enableJobReady: , arguments: }] # nothing is said of the flag\n"
        "metrics: {tls.insecureSkipVerify: true, interval: 1:30, address: }\nconfigurations:\n-\n",
        skip_unknown_plugins=True,
    )
    assert found.actions == ("enqueue", "allocate")
    assert [[entry.name for entry in tier] for tier in found.tiers] == [[], [], [], ["", "5", "gang"]]
    assert "enableJobReady" in found.tiers[3][2].enabled
    assert found.metrics == {"tls.insecureSkipVerify": "true", "interval": "1:30", "address": ""}
    assert [warning.partition(": ")[2] for warning in found.warnings] == [
        "Failed to get plugin .",
        "Failed to get plugin 5.",
        "arguments of action , which is not among the actions",
    ]


def test_yaml_scalars_are_typed_as_volcano_types_them():
    (entry,) = read(
        "actions: allocate\ntiers: [{plugins: [{name: gang, arguments: {day: 2024-13-45, date: 2024-01-31, time: 12:30, "
        "large: 1e3, small: .5, octal: 010, hex: 0x10, is: yes, 1: one}}]}]"
    ).tiers[0]
    assert entry.arguments == {
        "day": "2024-13-45",
        "date": "2024-01-31",
        "time": "12:30",
        "large": 1000.0,
        "small": 0.5,
        "octal": 8,
        "hex": 16,
        "is": True,
        "1": "one",
    }


def test_misplaced_or_repeated_settings_give_warnings_with_their_line():
    found = read(
        "actions: allocate\ntiers:\n- {name: gang}\nconfigurations:\n- {name: allocate, args: {a: 1}}\n- {name: allocate}\n"
        "---\nactions: fly"
    )
    assert found.warnings == (
        "line 7: another document follows, which is not read",
        "line 3: in a tier: name is unknown",
        "line 5: in configurations: args is unknown; did you mean arguments?",
        "line 6: arguments of action allocate were given before, and those count",
    )


USABLE = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
CHECKS = {
    "usable": (USABLE, 0, {"error": "", "warnings": []}),
    "a plugin that does not exist, skipped": (
        USABLE + "  - name: magic\n",
        0,
        {"error": "", "warnings": ["line 5: Failed to get plugin magic."]},
        "--skip-unknown-plugins",
    ),
    "not a mapping": ("- a", 1, {"error": "line 1: a mapping with actions and tiers is wanted", "warnings": []}),
}


@pytest.mark.parametrize("case", CHECKS.values(), ids=CHECKS.keys())
def test_the_check_command_prints_errors_and_warnings_as_json_with_an_exit_status(tmp_path, capfdbinary, case):
    text, want_status, want, *flags = case
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(text)
    assert (main(["check", *flags, str(file)]), json.loads(capfdbinary.readouterr().out)) == (want_status, want)


def test_the_check_command_names_the_nearest_plugin_for_one_that_does_not_exist(tmp_path, capfdbinary):
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(USABLE.replace("gang", "gnag"))
    assert main(["check", str(file)]) == 1
    assert json.loads(capfdbinary.readouterr().out)["error"].startswith(
        "line 4: plugin 'gnag' does not exist; did you mean gang? (there are: binpack, capacity, "
    )


def test_the_check_command_exits_with_2_for_a_missing_file(tmp_path, capsys):
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_the_check_command_prints_its_usage_with_help(capsys):
    assert main(["check", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: ")
