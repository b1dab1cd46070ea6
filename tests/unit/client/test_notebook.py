"""How handles look in a notebook and on a terminal."""

import io
import re

from pyroclast_client.states import JobStatus, ProgressLine, explanation_of, flow_html, job_html, line_of, sweep_html

EVIL = '<script>alert("x")</script>'


def job(**status):
    return {"metadata": {"name": EVIL, "namespace": "n"}, "spec": {"queue": "q"}, "status": status}


def test_notebook_html_escapes_markup_in_names_and_messages():
    status = JobStatus("Pending", message=EVIL, pending=1, succeeded=3)
    explanation = explanation_of(job(state={"phase": "Pending", "message": f"waits: QueueFull: not now: {EVIL}"}))
    for html in (
        job_html("Job", EVIL, status, None),
        job_html("Job", EVIL, status, explanation),
        sweep_html(EVIL, [status, status]),
        flow_html(EVIL, "Running", {EVIL: "Completed"}, {EVIL: EVIL}),
        explanation._repr_html_(),
    ):
        assert "&lt;script&gt;" in html
        assert not re.search(r"<script|<link|src=|href=|https?:", html)
        assert html.count("<div") == html.count("</div>")
    assert "6 succeeded" in sweep_html("s", [status, status])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_on_a_terminal_is_one_overwritten_line():
    output = Terminal()
    line = ProgressLine(output, {})
    waiting = job(state={"phase": "Pending", "message": "waits: QueueFull: not now: queue q is full\nnow"}, pending=2)
    for each in (waiting, waiting, job(state={"phase": "Running"}, running=2), None):
        line.show(each)
    line.end()
    shown = output.getvalue()
    assert shown.count("\r") == 2
    assert shown.count("\n") == 1
    assert "Pending; 2 pending; QueueFull: not now: queue q is full now" in shown
    assert "Running; 2 running" in shown


def test_progress_has_no_escape_codes_with_no_color_and_no_output_without_a_terminal():
    output = Terminal()
    line = ProgressLine(output, {"NO_COLOR": "1"})
    line.show(job(state={"phase": "Running"}))
    assert "\x1b" not in output.getvalue()
    plain = io.StringIO()
    ProgressLine(plain, {}).show(job())
    assert plain.getvalue() == ""
    assert line_of(job()) == "Pending; NotExamined: the scheduler has not looked at it since it came or changed"
