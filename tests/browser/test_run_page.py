"""A run's page in a browser: it loads itself again where its reader is, wide and narrow."""

import pytest
from helpers.run_pages import PREDICTIONS, lines_of, make_run, plan_of

from kbert.training.run import report_page
from kbert.training.run.live_report import LiveReport
from kbert.training.run.record_summary import RecordSummary

pytestmark = pytest.mark.full


def write(run, done: int, predictions=PREDICTIONS):
    """Write the page of a run after so many steps of 90; return its path."""
    report = LiveReport(run, plan_of("finetune"), lambda: predictions)
    report.write(done, lines_of("finetune")[:done], due=True)
    return run.path / "report.html"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "REFRESH", 1)
    return make_run(tmp_path / "run", "finetune", [])


def test_page_loads_itself_again_and_its_reader_stays(open_page, run):
    page = open_page(write(run, 30), height=500)
    assert page.locator("progress").get_attribute("value") == "30"
    page.get_by_text("4 more").click()
    page.get_by_text("All settings").click()
    page.evaluate("scrollTo(0, 700)")
    write(run, 60)
    # it loads itself each second, and an `evaluate` that meets that moment fails: these wait
    page.wait_for_function("document.querySelector('progress').value === 60")
    page.wait_for_function("scrollY === 700")
    opened = "[...document.querySelectorAll('details[open]')].map((one) => one.dataset.name).join()"
    page.wait_for_function(f"{opened} === 'examples,All settings'")
    page.wait_for_function("document.activeElement.textContent === 'All settings'")


def test_page_waits_while_it_is_paused_or_text_is_selected(open_page, run):
    page = open_page(write(run, 30))
    page.get_by_role("button", name="Pause").click()
    write(run, 60)
    page.wait_for_timeout(2500)
    assert page.locator("progress").get_attribute("value") == "30"
    page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
    page.get_by_role("button", name="Pause").evaluate("button => button.click()")
    page.wait_for_timeout(2500)
    assert page.locator("progress").get_attribute("value") == "30"
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_function("document.querySelector('progress').value === 60")


def test_page_of_a_finished_run_stays(open_page, run):
    page = open_page(write(run, 89))
    result = {"steps": 90, "asked": 90, "stopped": None}
    records = RecordSummary(lines_of("finetune"))
    report_page.write_report(run, records, result, plan_of("finetune"))
    page.wait_for_selector(".finished")
    page.evaluate("globalThis.same = true")
    page.wait_for_timeout(2500)
    assert page.evaluate("globalThis.same")


def test_silent_run_says_how_to_resume_it(open_page, run):
    file = write(run, 30)
    page = open_page(file)
    assert not page.get_by_text("To resume the run").is_visible()
    text = file.read_text(encoding="utf-8")
    begin, _, rest = text.partition('data-written="')
    file.write_text(f'{begin}data-written="1{rest[rest.index(chr(34)) :]}', encoding="utf-8")
    page.wait_for_function("document.body.dataset.written === '1'")
    assert page.get_by_text("To resume the run").is_visible()
    assert "Nothing was written for" in page.locator(".warning").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_page_fits_and_axe_finds_nothing(open_page, find_violations, run, width, scheme):
    records = RecordSummary(lines_of("finetune"))
    result = {"steps": 90, "asked": 90, "stopped": None}
    predictions = PREDICTIONS, 60
    report_page.write_report(run, records, result, plan_of("finetune"), predictions=predictions)
    page = open_page(run.path / "report.html", width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = """all => all.map((one) => parseFloat(getComputedStyle(one).fontSize)
      * (one.getScreenCTM ? one.getScreenCTM().a : 1))"""
    assert min(page.locator("body *:not(script, noscript, svg *)").evaluate_all(sizes)) >= 11
    assert min(page.locator("svg text").evaluate_all(sizes)) >= 11
    assert find_violations(page) == []
