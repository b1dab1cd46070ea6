"""The alerts by Prometheus' own tool: each fires in its scenario, and in no other."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pyroclast.views.health import CHECKS
from tests.unit.chart import health_alerts, render
from tests.unit.chart.test_chart import of_kind
from tests.unit.chart.test_extras import OPERATOR

OURS = 'namespace="pyroclast-system",service="pyroclast-x-service"'
SCENARIOS = {
    **{check.alert: {f'pyroclast_problem{{{OURS},check="{check.name}"}}': "0x60 1x240"} for check in CHECKS},
    "PyroclastServiceDown": {f'up{{{OURS},pod="a"}}': "0x300"},
    "PyroclastSchedulingFails": {f"pyroclast_cycle_failures_total{{{OURS}}}": "0+1x300"},
    "PyroclastBindsAreRefused": {f"pyroclast_bind_refusals_total{{{OURS}}}": "0+5x300"},
    "PyroclastObjectsLeftOut": {f'pyroclast_objects_left_out{{{OURS},kind="Pod"}}': "1x300"},
    "PyroclastEvictionsGoOn": {f'pyroclast_evictions_total{{{OURS},action="reclaim"}}': "0+3x300"},
    "PyroclastQueueStarved": {
        f"pyroclast_admission_webhooks_missing{{{OURS}}}": "0x300",
        f'pyroclast_stands_aside{{{OURS},pod="a"}}': "0x300",
        f'pyroclast_oldest_waiting_seconds{{{OURS},queue="q"}}': "4000+60x300",
        f'pyroclast_queue_below_guarantee{{{OURS},queue="q"}}': "1x300",
    },
    "PyroclastJobsUnexamined": {f'pyroclast_longest_unexamined_seconds{{{OURS},queue="q"}}': "70+60x300"},
    "PyroclastJobsNeverFit": {f'pyroclast_never_fitting_jobs{{{OURS},queue="q"}}': "2x300"},
    "PyroclastGangsCrash": {f'pyroclast_crashing_jobs{{{OURS},queue="q"}}': "0 0 1 0 1 1 0 1 0 0 1x300"},
    "PyroclastEstimatesAreWrong": {f'pyroclast_estimate_held_ratio{{{OURS},queue="q"}}': "0.75x20 0.55x300"},
    "PyroclastNoLeader": {f'pyroclast_lease_held{{{OURS},lease="volcano"}}': "0x300"},
    "PyroclastRecorderBehind": {
        f'pyroclast_recorder_lag_seconds_bucket{{{OURS},le="30"}}': "0x300",
        f'pyroclast_recorder_lag_seconds_bucket{{{OURS},le="60"}}': "0+9x300",
        f'pyroclast_recorder_lag_seconds_bucket{{{OURS},le="+Inf"}}': "0+9x300",
    },
    "PyroclastRecorderGap": {f'pyroclast_recorder_gap_seconds_total{{{OURS},kind="pods"}}': "_x60 30x240"},
    "PyroclastRecorderNotWriting": {f"pyroclast_recorder_unwritten_seconds{{{OURS}}}": "_x60 0+60x240"},
    "PyroclastRecorderLeavesOut": {
        f'pyroclast_recorder_incidents_total{{{OURS},kind="pods",what="left_out"}}': "_x60 1x240",
        f'pyroclast_recorder_incidents_total{{{OURS},kind="pods",what="relist"}}': "_x60 1x240",
    },
    "PyroclastBudgetNearlySpent": {f'pyroclast_budget_spent_ratio{{{OURS},queue="q",resource="nvidia.com/gpu"}}': "0.9+0.01x300"},
    "PyroclastBudgetUnknown": {f'pyroclast_budget_unknown{{{OURS},queue="q"}}': "1x300"},
    "PyroclastWorkPilesUp": {f'workqueue_depth{{{OURS},name="job"}}': "2000x300"},
    "PyroclastAdmissionIsSlow": {
        f'pyroclast_admission_review_duration_seconds_bucket{{{OURS},webhook="w",le="2"}}': "0x300",
        f'pyroclast_admission_review_duration_seconds_bucket{{{OURS},webhook="w",le="5"}}': "0+9x300",
        f'pyroclast_admission_review_duration_seconds_bucket{{{OURS},webhook="w",le="+Inf"}}': "0+9x300",
    },
    "PyroclastAdmissionShedsLoad": {f'pyroclast_admission_reviews_total{{{OURS},outcome="shed"}}': "0+1x300"},
    "PyroclastStandsAside": {f'pyroclast_stands_aside{{{OURS},pod="a"}}': "0x60 1x240"},
    "PyroclastWebhooksMissing": {f"pyroclast_admission_webhooks_missing{{{OURS}}}": "0x60 1x240"},
    "PyroclastEventLoopIsHeldUp": {
        f'pyroclast_event_loop_lag_seconds_bucket{{{OURS},pod="a",le="0.5"}}': "0x300",
        f'pyroclast_event_loop_lag_seconds_bucket{{{OURS},pod="a",le="1"}}': "0+9x300",
        f'pyroclast_event_loop_lag_seconds_bucket{{{OURS},pod="a",le="+Inf"}}': "0+9x300",
    },
}
"""Series of one sample a minute that bring about each alert."""

QUIET = {
    **{f'pyroclast_problem{{{OURS},check="{check.name}"}}': "1x60 0x240" for check in CHECKS},
    f'up{{{OURS},pod="a"}}': "1x300",
    f'pyroclast_oldest_waiting_seconds{{{OURS},queue="q"}}': "4000+60x300",
    f'pyroclast_queue_below_guarantee{{{OURS},queue="q"}}': "0x300",
    f'pyroclast_longest_unexamined_seconds{{{OURS},queue="q"}}': "5x300",
    f'pyroclast_never_fitting_jobs{{{OURS},queue="q"}}': "0x300",
    f'pyroclast_crashing_jobs{{{OURS},queue="q"}}': "0x300",
    f'pyroclast_estimate_held_ratio{{{OURS},queue="q"}}': "0.79x300",
    f'pyroclast_estimate_held_ratio{{{OURS},queue="no-more-estimates"}}': "0.7x70 0x10 _x300",
    f'pyroclast_lease_held{{{OURS},lease="volcano"}}': "1x300",
    f'pyroclast_budget_spent_ratio{{{OURS},queue="q",resource="cpu"}}': "0.94x300",
    f'pyroclast_budget_unknown{{{OURS},queue="q"}}': "0x300",
    f'pyroclast_recorder_gap_seconds_total{{{OURS},kind="pods"}}': "30x300",
    f"pyroclast_recorder_unwritten_seconds{{{OURS}}}": "1x300",
    f'pyroclast_recorder_incidents_total{{{OURS},kind="pods",what="left_out"}}': "3x300",
    f"pyroclast_cycle_failures_total{{{OURS}}}": "7x300",
    f'pyroclast_evictions_total{{{OURS},action="reclaim"}}': "0+100x10 1000x290",
    f'workqueue_depth{{{OURS},name="job"}}': "10x300",
    'up{namespace="elsewhere",service="pyroclast-x-service",pod="b"}': "0x300",
}
"""Series of a cluster that is well, and of a service that is not ours."""


@pytest.fixture(scope="module")
def rules(helm, tmp_path_factory):
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool; on Debian: apt-get install prometheus")
    documents = render.documents(helm, *OPERATOR, "--set", "custom.metrics_enable=true")
    (rule,) = of_kind(documents, "PrometheusRule").values()
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text(yaml.safe_dump(rule["spec"]))
    return path


def alerts(rules):
    return {rule["alert"]: rule for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]}


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alert_rules_pass_promtool_and_each_alert_has_a_scenario(rules):
    promtool("check", "rules", rules)
    assert alerts(rules).keys() == SCENARIOS.keys(), "each alert has a scenario"


def test_alerts_and_list_of_the_checks_of_health_are_those_that_the_code_makes():
    assert health_alerts.ALERTS.read_text() == health_alerts.alert_rules()
    assert health_alerts.PAGE.read_text() == health_alerts.written(health_alerts.PAGE.read_text())


def test_each_alert_has_a_summary_and_the_url_of_its_own_section_of_the_documentation(rules):
    sections = {line[3:].lower() for line in Path("docs/reference/alerts.md").read_text().splitlines() if line.startswith("## ")}
    for name, rule in alerts(rules).items():
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"] == f"https://pyroclast.dev/docs/reference/alerts/#{name.lower()}"
        assert name.lower() in sections


def test_each_alert_fires_in_its_scenario_and_in_no_other(rules, tmp_path):
    tests = []
    for name, series in {**SCENARIOS, "": QUIET}.items():
        given = [{"series": each, "values": values} for each, values in series.items()]
        expected = [
            {"expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)', "eval_time": "90m"}
            for alert in SCENARIOS
        ]
        for each, alert in zip(expected, SCENARIOS, strict=True):
            each["exp_samples"] = [{"labels": "{}", "value": int(alert == name)}]
        tests.append({"interval": "1m", "input_series": given, "promql_expr_test": expected})
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)
