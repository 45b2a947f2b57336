// @vitest-environment node
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type WireMessage, pack, unpack } from "../../src/host/wire";
import { activate } from "../src/extension";
import { findPython } from "../src/python";
import * as web from "../src/web";
import manifest from "../package.json";
import { fake, Panel, TabInputCustom, Uri } from "./vscode";

const REPO = resolve(import.meta.dirname, "../../..");
const PYTHON = join(REPO, ".venv/bin/python");
const EVENT = { ph: "X", cat: "kernel", name: "gemm", pid: 0, tid: 7, ts: 10, dur: 4 };
const WAIT = { timeout: 60_000, interval: 20 };

let folder: string;
let trace: string;
let panels: Panel[];
const context: any = { subscriptions: [], extensionUri: new Uri(join(REPO, "js/vscode")) };

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "vscode-"));
  trace = join(folder, "rank-0.trace.json");
  writeFileSync(trace, JSON.stringify({ traceEvents: [EVENT] }));
});
afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(() => {
  process.env.PYTHONPATH = REPO;
  panels = [];
  fake.reset();
  fake.settings = { python: PYTHON };
  activate(context);
});
afterEach(() => {
  for (const panel of [...panels, ...fake.panels]) panel.closed.fire();
  vi.useRealTimers();
});

/** Open a file like the editor does; the page exists at once. */
function edit(path: string, visible = true): Panel {
  const panel = new Panel();
  panel.visible = visible;
  panels.push(panel);
  const provider = fake.providers["hta.trace"];
  provider.resolveCustomEditor(provider.openCustomDocument(new Uri(path)), panel);
  panel.say({ type: "ready" });
  return panel;
}

const frames = (panel: Panel): WireMessage[] =>
  panel.heard.filter(({ type }) => type === "frame").map(({ frame }) => unpack(frame).message);

async function heard(panel: Panel, type: string): Promise<any> {
  return vi.waitFor((): unknown => {
    const found: unknown = [...panel.heard, ...frames(panel)].find((one) => one.type === type);
    expect(found, `no ${type} among ${panel.types().join()}`).toBeDefined();
    return found;
  }, WAIT);
}

const put = (panel: Panel, message: any): void =>
  panel.say({ type: "frame", frame: pack(message) });

/** Write a script that stands in for Python and gives fixed replies. */
function script(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

test("all that package.json contributes is registered, on machines and in browsers", () => {
  const names = manifest.contributes.commands.map(({ command }) => command).sort();
  const types = manifest.contributes.customEditors.map(({ viewType }) => viewType).sort();
  expect(Object.keys(fake.commands).sort()).toEqual(names);
  expect(Object.keys(fake.providers).sort()).toEqual(types);
  Object.assign(fake, { commands: {}, providers: {} });
  web.activate({ subscriptions: [] } as any);
  expect(Object.keys(fake.commands).sort()).toEqual(names);
  const panel = new Panel();
  fake.providers["hta.trace"].resolveCustomEditor({}, panel);
  expect(panel.webview.html).toContain("Python is needed");
});

test("each command of a menu is contributed, and no two default patterns match one file", () => {
  const names = new Set(manifest.contributes.commands.map(({ command }) => command));
  for (const entries of Object.values(manifest.contributes.menus)) {
    for (const { command } of entries) expect(names).toContain(command);
  }
  const patterns = manifest.contributes.customEditors
    .filter(({ priority }) => priority === "default")
    .flatMap(({ selector }) => selector)
    .map(({ filenamePattern }) => {
      const name = filenamePattern.replace("**/*.store/", "");
      return new RegExp(`^${name.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
    });
  const files = [
    ...["a.pt.trace.json", "a.trace.json.gz", "rank-0.json.gz", "b.json.zst", "b.trc"],
    ...["comm.json", "store.json"],
  ];
  for (const file of files) expect(patterns.filter((one) => one.test(file))).toHaveLength(1);
  expect(patterns.filter((one) => one.test("settings.json"))).toEqual([]);
});

test("a file opens in a Python of its own, which ends with its editor", async () => {
  const panel = edit(trace);
  const hello = await heard(panel, "hello");
  expect(hello.request).toEqual({ view: "dashboard", paths: [trace] });
  put(panel, { type: "open", id: 1, ...hello.request });
  const { model } = await heard(panel, "opened");
  const opened = frames(panel).filter(({ type }) => type === "comm_open");
  expect(opened.map(({ comm }) => comm)).toContain(model);
  expect(existsSync(`/proc/${hello.pid}`)).toBe(true);
  panel.closed.fire();
  await vi.waitFor(() => expect(existsSync(`/proc/${hello.pid}`)).toBe(false), WAIT);
}, 90_000);

test("a store is opened by the file that describes it", async () => {
  const store = join(folder, "job.store");
  mkdirSync(store);
  const panel = edit(join(store, "store.json"));
  expect((await heard(panel, "hello")).request.paths).toEqual([store]);
}, 60_000);

test("a Python that is killed is reported, and started again", async () => {
  const panel = edit(trace);
  process.kill((await heard(panel, "hello")).pid, "SIGKILL");
  const { problem } = await heard(panel, "ended");
  expect(problem.message).toBe("Python has ended");
  panel.heard.length = 0;
  panel.say({ type: "action", action: "start" });
  await heard(panel, "hello");
}, 90_000);

test("the page allows only its own script, and names nothing outside", () => {
  const { html } = edit('/a "b" <c>&.trc').webview;
  const [, nonce] = /script-src 'nonce-([^']+)' blob:;/.exec(html)!;
  expect(html).toContain(`<script nonce="${nonce}"`);
  expect(html).toContain("default-src 'none'");
  expect(html).not.toMatch(/https?:|unsafe-eval|<c>/);
  expect(edit(trace).webview.html).not.toContain(nonce);
});

test.each([
  ["cannot be run", () => join(folder, "nothing"), ["choose"]],
  [
    "Python 3.9 is too old",
    () => script("old", 'case "$1" in -c) echo 3 9; echo False;; *) exit 1; esac'),
    ["choose"],
  ],
  [
    "not installed",
    () => script("bare", 'case "$1" in -c) echo 3 12; echo False;; *) exit 1; esac'),
    ["install", "choose"],
  ],
  [
    "hta_widgets is too old",
    () =>
      script(
        "early",
        'case "$1" in -c) echo 3 12; echo True;; *) echo "No module named hta_widgets.host" >&2; exit 1; esac',
      ),
    ["install", "choose"],
  ],
])(
  "a card for a Python: %s",
  async (words, python, actions) => {
    fake.settings.python = python();
    const { problem } = await heard(edit(trace), "ended");
    expect(problem.message).toContain(words);
    expect(problem).toMatchObject({ path: fake.settings.python, actions });
  },
  60_000,
);

test("the button installs into that Python in a terminal, then starts it", async () => {
  const python = script("bare2", 'case "$1" in -c) echo 3 12; echo False;; *) exit 1; esac');
  fake.settings.python = python;
  const panel = edit(trace);
  await heard(panel, "ended");
  fake.taskCode = 1;
  panel.say({ type: "action", action: "install" });
  await vi.waitFor(() => expect(fake.tasks).toHaveLength(1));
  const { execution } = fake.tasks[0];
  const words = ["-m", "pip", "install", "--upgrade", "hta_widgets"];
  expect([execution.process, execution.args]).toEqual([python, words]);
  fake.taskCode = 0;
  panel.heard.length = 0;
  fake.settings.python = PYTHON;
  panel.say({ type: "action", action: "install" });
  await heard(panel, "hello");
}, 60_000);

test("Python: the setting, the Python extension's, or that of PATH", async () => {
  const uri: any = new Uri(trace);
  fake.settings.python = "${workspaceFolder}/.venv/bin/python";
  expect(await findPython(uri)).toBe("/work space/.venv/bin/python");
  fake.settings.python = "";
  expect(await findPython(uri)).toBe("python3");
  const environments = {
    getActiveEnvironmentPath: () => ({ path: "/envs/one" }),
    resolveEnvironment: async ({ path }: any) => ({
      executable: { uri: new Uri(`${path}/bin/python`) },
    }),
  };
  fake.extensions["ms-python.python"] = { activate: async () => ({ environments }) };
  expect(await findPython(uri)).toBe("/envs/one/bin/python");
  fake.extensions["ms-python.python"] = { activate: async () => ({}) };
  expect(await findPython(uri)).toBe("python3");
});

test("the status bar shows what is loaded, and cancels it", async () => {
  const panel = edit(trace);
  await heard(panel, "hello");
  panel.say({ type: "loading", text: "Reading 40 %" });
  expect(fake.status).toMatchObject({ shown: true, text: "$(loading~spin) Reading 40 %" });
  fake.commands["hta.cancel"]!();
  expect(panel.types()).toContain("cancel");
  panel.say({ type: "loading", text: null });
  expect(fake.status.shown).toBe(false);
}, 60_000);

test("a tab that is hidden, or a preview that is passed by, starts no Python", async () => {
  vi.useFakeTimers();
  const hidden = edit(trace, false);
  const preview = edit(join(folder, "other.trc"));
  fake.tabs = [
    { isPreview: true, input: new TabInputCustom(new Uri(join(folder, "other.trc")), "") },
  ];
  fake.tabsChanged.fire();
  await vi.advanceTimersByTimeAsync(1000);
  preview.visible = false;
  preview.viewState.fire();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([...hidden.types(), ...preview.types()]).not.toContain("started");
  vi.useRealTimers();
  preview.visible = true;
  fake.tabs = [];
  preview.viewState.fire();
  await heard(preview, "started");
});

test("a Python that is not used is stopped, but not while it loads", async () => {
  fake.settings.idleMinutes = 0.01;
  const panel = edit(trace);
  const { pid } = await heard(panel, "hello");
  panel.say({ type: "loading", text: "Reading" });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(panel.types()).not.toContain("ended");
  panel.say({ type: "loading", text: null });
  expect((await heard(panel, "ended")).problem.message).toContain("of inactivity");
  await vi.waitFor(() => expect(existsSync(`/proc/${pid}`)).toBe(false), WAIT);
}, 90_000);

test("large input needs a confirmation", async () => {
  fake.settings.askAboveMB = 0.00001;
  const panel = edit(folder);
  const { problem } = await heard(panel, "problem");
  expect(problem.load).toBe("Load");
  expect(panel.types()).not.toContain("started");
  panel.say({ type: "action", action: "start" });
  await heard(panel, "started");
});

test("several files are one job; two are compared, the selected one first", () => {
  const [one, two] = [new Uri("/runs/a"), new Uri("/runs/b")];
  fake.commands["hta.open"]!(one, [one, two]);
  fake.commands["hta.selectForCompare"]!(two);
  fake.commands["hta.compareWithSelected"]!(one, [one]);
  fake.commands["hta.compareWithSelected"]!(one, [one, two]);
  const requests = fake.panels.map(({ webview }): unknown =>
    JSON.parse(/data-request="([^"]*)"/.exec(webview.html)![1]!.replaceAll("&quot;", '"')),
  );
  expect(requests).toEqual([
    { view: "dashboard", paths: ["/runs/a", "/runs/b"] },
    { view: "diff", paths: ["/runs/b", "/runs/a"] },
    { view: "diff", paths: ["/runs/a", "/runs/b"] },
  ]);
  expect(fake.executed).toContainEqual(["setContext", "hta.hasSelected", true]);
});

test("a notebook loads the trace", async () => {
  await fake.commands["hta.newNotebook"]!(new Uri('/a "b".trc'));
  const [{ cells }] = fake.notebooks;
  expect(cells[0].value).toContain('hw.load("/a \\"b\\".trc")');
  expect(cells[1].value).toContain("hw.Dashboard(traces)");
});

test("files of a page go to the dialog's path, or nowhere", async () => {
  const panel = edit(trace);
  const name = "chosen.json.gz";
  panel.say({ type: "save", name, file: "/tmp/written" });
  fake.saveTo = new Uri("/home/me/x.json.gz");
  panel.say({ type: "save", name, file: "/tmp/written" });
  panel.say({ type: "save", name, file: new Uint8Array([1, 2]).buffer });
  await vi.waitFor(() => expect(fake.copied).toHaveLength(2));
  expect(fake.copied).toEqual([
    ["/tmp/written", "/home/me/x.json.gz"],
    [[1, 2], "/home/me/x.json.gz"],
  ]);
});

test("a source line is shown in a file of the workspace, or of an absolute path", async () => {
  const panel = edit(trace);
  fake.files = ["/job/other/train.py", "/job/my [x]/train.py", "/job/x/retrain.py"];
  for (const path of ["my [x]/train.py", "/abs/train.py", "gone/train.py"])
    panel.say({ type: "source", path, line: 82 });
  await vi.waitFor(() => expect(fake.said.join()).toContain("gone/train.py cannot be opened"));
  expect(fake.shown.sort()).toEqual(["/abs/train.py:81", "/job/my [x]/train.py:81"]);
});

test("a window that is reloaded shows its jobs again", async () => {
  const panel = new Panel();
  panels.push(panel);
  const state = { view: "dashboard", paths: [trace] };
  await fake.serializers["hta.job"].deserializeWebviewPanel(panel, state);
  panel.say({ type: "ready" });
  expect((await heard(panel, "hello")).request).toEqual(state);
}, 60_000);
