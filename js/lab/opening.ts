/** The Python code that opens traces in a kernel. */

import type { OpenViewRequest } from "../src/host/start";

const VARIABLES: Record<OpenViewRequest["view"], string> = {
  dashboard: "traces, dash",
  timeline: "traces, dash",
  diff: "before, after, diff",
};

/**
 * Return code that opens files in the kernel's folder, where the traces are.
 *
 * The first lines remove this folder from `sys.path`: otherwise, `import pandas` would run a
 * `pandas.py` next to a trace. Python has imported `sys` and `os` already, so they are safe.
 */
export function openingCode(view: OpenViewRequest["view"], names: readonly string[]): string {
  const paths = names.map((name) => JSON.stringify(name)).join(", ");
  return [
    "import os as _os, sys as _sys",
    "_sys.path[:] = [path for path in _sys.path if _os.path.isabs(path)",
    "                and _os.path.realpath(path) != _os.path.realpath(_os.getcwd())]",
    "import hta_widgets as hw",
    "from hta_widgets.host import kernel as _host",
    `${VARIABLES[view]} = _host.show(${view === "diff" ? `${paths}, view="diff"` : paths})`,
  ].join("\n");
}
