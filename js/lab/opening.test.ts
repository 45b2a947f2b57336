// @vitest-environment node
/** Python code that opens traces in a kernel, run in a folder with planted modules. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { openingCode } from "./opening";

const REPO = resolve(import.meta.dirname, "../..");
const PYTHON = join(REPO, ".venv/bin/python");

function plantModules(): string {
  const folder = mkdtempSync(join(tmpdir(), "planted-"));
  for (const name of ["hta_widgets", "pandas", "numpy", "json", "tornado", "IPython"]) {
    writeFileSync(join(folder, `${name}.py`), "print('PLANTED ' + __name__)\n");
  }
  return folder;
}

test("modules next to a trace are not imported", { timeout: 60_000 }, () => {
  // The working directory is on `sys.path` twice: as "" and, because of the colon, as a path.
  const [cwd, env] = [plantModules(), { ...process.env, PYTHONPATH: `:${REPO}` }];
  const code = openingCode("dashboard", ["none.trace.json"]);
  const { stdout, stderr } = spawnSync(PYTHON, ["-c", code], { cwd, env, encoding: "utf8" });
  expect(stdout).not.toContain("PLANTED");
  expect(stderr).toContain("none.trace.json: does not exist");
});
