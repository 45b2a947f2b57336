"""Fixtures for tests in a real browser: Chromium, JupyterLab, Notebook 7, Perfetto's UI."""

import itertools

import pytest
from playwright.sync_api import expect
from support import browser as hands, perfetto as ui
from support.notebook_files import write_notebook
from support.notebooks import Kernel, run_notebook, set_theme
from support.servers import jupyterlab, static_files

import hta_widgets as hw
from hta_widgets.demo.job import write_demo

_numbers = itertools.count(1)

#: Long enough for a busy machine.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS / 2)


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    if not hands.CHROMIUM.exists():
        pytest.skip(f"no browser at {hands.CHROMIUM}: install chromium or set HTA_CHROMIUM")
    return browser_type_launch_args | {
        "executable_path": str(hands.CHROMIUM),
        "args": hands.FLAGS,
    }


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return browser_context_args | {
        "viewport": {"width": 1440, "height": 1000},
        "device_scale_factor": 1,
        "reduced_motion": "reduce",
        "accept_downloads": True,
    }


@pytest.fixture(scope="session")
def _lab_context(browser, browser_context_args):
    """The browser context of all JupyterLab tests, so that scripts are loaded and compiled once."""
    context = browser.new_context(**browser_context_args)
    context.set_default_timeout(PATIENCE_MS)
    yield context, hands.Guard().watch(context)
    context.close()


def _page_of(context):
    return context.pages[0] if context.pages else context.new_page()


@pytest.fixture
def context(request, new_context, browser_context_args):
    """A context. Requests to other machines and uncaught exceptions fail its test."""
    if "lab" not in request.fixturenames:
        context = new_context()
        context.set_default_timeout(PATIENCE_MS)
        guard = hands.Guard().watch(context)
        yield context
        guard.judge()
        return
    context, guard = request.getfixturevalue("_lab_context")
    page = _page_of(context)
    page.set_viewport_size(browser_context_args["viewport"])
    yield context
    for other in context.pages:
        if other is not page or page.locator(".jp-Dialog").count():
            other.close()
    context.clear_permissions()
    guard.judge()


@pytest.fixture
def page(context):
    """The page of a context; all JupyterLab tests share one page."""
    return _page_of(context)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A local JupyterLab with empty folders; its kernels run this Python."""
    with jupyterlab(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The files of a job of eight ranks; the sixth is slow."""
    path = tmp_path_factory.mktemp("job") / "demo"
    write_demo(path, ranks=8, steps=3, seed=0, events_per_step=900)
    return path


@pytest.fixture(scope="session")
def job(folder):
    """The job in `folder` on the fitted clock, as in views; its recorded clocks disagree."""
    return hw.load(folder, progress=False, cache=False).with_clock("fitted")


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """A folder with two small jobs, `before` and `after`; one operator is slower in `after`."""
    path = tmp_path_factory.mktemp("pair")
    for name, changes in (("before", []), ("after", ["slow_operator"])):
        write_demo(path / name, ranks=2, steps=3, seed=0, events_per_step=900, changes=changes)
    return path


@pytest.fixture(scope="session")
def report(job, built, tmp_path_factory):
    """The saved dashboard of `job`."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    hw.Dashboard(job).save_html(path)
    return path


def _runner(lab, page, app, prefix=""):
    def run(*cells: str):
        name = f"{prefix}{app}-{next(_numbers)}.ipynb"
        write_notebook(lab.folder / name, cells)
        return run_notebook(lab, page, name, app=app)

    return run


@pytest.fixture(scope="module")
def kept_notebook(lab, _lab_context):
    """Like `notebook`, but shared by the tests of a file until one opens another notebook."""
    context, guard = _lab_context
    yield _runner(lab, _page_of(context), "lab", prefix="kept-")
    guard.judge()
    lab.end_sessions(kept=True)


@pytest.fixture
def notebook(lab, page):
    """`notebook(*cells)` runs cells in JupyterLab and returns the page with the notebook."""
    yield _runner(lab, page, "lab")
    lab.end_sessions()


@pytest.fixture
def notebook7(lab, page):
    """Like `notebook`, but in Notebook 7."""
    yield _runner(lab, page, "notebook")
    lab.end_sessions()


@pytest.fixture
def kernel(page):
    """`kernel(code)` runs code; `kernel.value` and `kernel.wait_for` evaluate an expression."""
    return Kernel(page)


@pytest.fixture
def theme(page):
    """`theme("dark")` switches JupyterLab's theme; the theme is reset for other tests."""
    yield lambda name: set_theme(page, name)
    set_theme(page, "light")


@pytest.fixture(scope="session")
def screenshot(repo, request):
    """`screenshot(page_or_locator, name)` writes screenshots/NAME.png for visual inspection.

    Screenshots are only taken by `make screenshots`.
    """
    is_asked = request.config.option.markexpr == "screenshots"
    folder = repo / "screenshots"
    folder.mkdir(exist_ok=True)

    def shoot(target, name):
        path = folder / f"{name}.png"
        if is_asked:
            target.screenshot(path=path, animations="disabled")
        return path

    return shoot


@pytest.fixture(scope="session")
def perfetto_url(perfetto_dir):
    """The local address of Perfetto's UI."""
    with static_files(perfetto_dir) as url:
        yield url


@pytest.fixture
def perfetto(perfetto_url, new_context):
    """`perfetto(path)` opens a file in Perfetto's UI and returns its import errors.

    `perfetto.query(sql)` queries the last opened trace.
    """
    # Not guarded, because Perfetto's own page requests user data (and gets no reply).
    page = new_context().new_page()

    def open_trace(path):
        ui.start(page, perfetto_url)
        ui.open_trace(page, path)
        return ui.import_errors(page)

    open_trace.query = lambda sql: ui.query(page, sql)
    return open_trace
