"""Notebooks in a real browser: run cells, inspect the kernel, switch the theme."""

import json
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page
from support.servers import Lab

RUN_S = 120

_KERNEL_READY = """path => {
  const panel = window.jupyterapp?.shell.currentWidget;
  const kernel = panel?.sessionContext?.isReady && panel.sessionContext.session?.kernel;
  return Boolean(kernel && panel.context?.path === path && panel.content?.model?.cells?.length
    && kernel.connectionStatus === "connected" && kernel.status === "idle");
}"""

# `close` would ask whether to save.
_OPEN = """async path => {
  for (const widget of [...jupyterapp.shell.widgets("main")]) widget.dispose();
  await jupyterapp.commands.execute("docmanager:open", { path, factory: "Notebook" });
}"""

_RUN_ALL = """async seconds => {
  const panel = jupyterapp.shell.currentWidget;
  const late = new Promise(resolve => setTimeout(resolve, seconds * 1000, "late"));
  const run = jupyterapp.commands.execute("notebook:run-all-cells").then(() => "done");
  const how = await Promise.race([run, late]);
  const errors = [];
  for (const cell of panel.content.widgets) {
    for (const output of cell.model.toJSON().outputs ?? []) {
      if (output.output_type === "error") errors.push(output.traceback.join("\\n"));
    }
  }
  return { how, errors };
}"""

_EXECUTE = """async ([code, seconds]) => {
  const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
  const late = new Promise(resolve => setTimeout(resolve, seconds * 1000, "late"));
  const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
  let out = "", error = null;
  future.onIOPub = ({ header, content }) => {
    if (header.msg_type === "stream") out += content.text;
    if (header.msg_type === "error") error = content.traceback.join("\\n");
  };
  const how = await Promise.race([future.done.then(() => "done"), late]);
  return { how, out, error };
}"""

_THEME = "name => jupyterapp.commands.execute('apputils:change-theme', { theme: name })"


def run_notebook(lab: Lab, page: Page, name: str, *, app: str) -> Page:
    """Open a notebook in `lab` or `notebook` and run all cells; fail if a cell fails.

    If the page already shows JupyterLab, the notebook opens there: loading the application takes
    longer than most tests.
    """
    if app == "lab" and page.url.startswith(f"{lab.url}/lab"):
        page.evaluate(_OPEN, name)
    else:
        path = {"lab": f"lab/tree/{name}?reset", "notebook": f"notebooks/{name}?"}[app]
        page.goto(f"{lab.url}/{path}&token={lab.token}")
    page.wait_for_function(_KERNEL_READY, arg=name, timeout=RUN_S * 1000)
    run_cells(page)
    return page


def run_cells(page: Page) -> None:
    """Run all cells of the notebook on the page; fail if a cell fails."""
    result = page.evaluate(_RUN_ALL, RUN_S)
    if result["errors"]:
        raise AssertionError("a cell failed:\n" + "\n".join(result["errors"]))
    if result["how"] == "late":
        raise AssertionError(f"the cells still run after {RUN_S} s")


@dataclass(frozen=True)
class Kernel:
    """The kernel of the notebook on a page."""

    page: Page

    def __call__(self, code: str) -> str:
        """Run code and return what it printed. Exceptions in the kernel are raised here."""
        result = self.page.evaluate(_EXECUTE, [code, RUN_S])
        if result["error"] is not None:
            raise AssertionError(f"in the kernel:\n{result['error']}")
        if result["how"] == "late":
            raise AssertionError(f"the kernel has not answered for {RUN_S} s: {code}")
        return str(result["out"]).strip()

    def value(self, expression: str) -> Any:
        """Return the value of an expression, which must be a JSON value."""
        return json.loads(self(f"import json; print(json.dumps({expression}))"))

    def wait_for(self, condition: str, *, seconds: float = 60) -> None:
        """Wait until an expression is true, while the kernel handles messages from the page.

        A cell that waits in Python would block these messages, so each check is a request of its
        own.
        """
        result = self.page.evaluate(
            """async ([condition, seconds]) => {
              const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
              const end = performance.now() + seconds * 1000;
              let last = "";
              while (performance.now() < end) {
                const future = kernel.requestExecute({
                  code: "", store_history: false, user_expressions: { c: `bool(${condition})` },
                });
                const reply = await future.done;
                const value = reply.content.user_expressions?.c;
                last = value?.data?.["text/plain"] ?? value?.evalue ?? "no answer";
                if (last === "True") return true;
              }
              return last;
            }""",
            [condition, seconds],
        )
        if result is not True:
            raise AssertionError(f"not within {seconds} s: {condition} (last: {result})")


def set_theme(page: Page, theme: str) -> None:
    """Switch JupyterLab to the `light` or `dark` theme and wait until it has changed."""
    page.evaluate(_THEME, {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[theme])
    flag = "true" if theme == "light" else "false"
    page.wait_for_function("flag => document.body.dataset.jpThemeLight === flag", arg=flag)
