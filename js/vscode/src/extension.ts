/** What the extension adds to VS Code: editors, commands, a status bar item. */

import * as path from "node:path";
import * as vscode from "vscode";
import { TraceEditor } from "./editor";
import type { OpenTraceRequest } from "./messages";

const PANEL = "hta.job";
const OPTIONS = { retainContextWhenHidden: true };
/** Name of the file that describes a store. */
const STORE = "store.json";

/** The editors that are loading. The status bar shows the one that started last. */
class LoadingStatus {
  private readonly texts = new Map<TraceEditor, string>();
  private readonly item = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Left);

  constructor(owned: vscode.ExtensionContext["subscriptions"]) {
    this.item.command = "hta.cancel";
    this.item.tooltip = "Click to cancel";
    owned.push(this.item);
  }

  show(editor: TraceEditor, text: string | null): void {
    if (text === null) this.texts.delete(editor);
    else this.texts.set(editor, text);
    const last = [...this.texts.values()].at(-1);
    void vscode.commands.executeCommand("setContext", "hta.loading", last !== undefined);
    this.item.text = `$(loading~spin) ${last ?? ""}`;
    if (last === undefined) this.item.hide();
    else this.item.show();
  }

  cancel(): void {
    [...this.texts.keys()].at(-1)?.cancel();
  }
}

/** Return the commands by name. They receive the file and all files selected in the explorer. */
function makeCommands(loading: LoadingStatus, open: (request: OpenTraceRequest) => void) {
  let selected: vscode.Uri | null = null;
  return {
    "hta.cancel": () => loading.cancel(),
    "hta.open": async (uri?: vscode.Uri, uris?: vscode.Uri[]) => {
      const traces = selectedUris(uri, uris) ?? (await pickTraces());
      if (traces.length > 0) open({ view: "dashboard", paths: traces.map(tracePath) });
    },
    "hta.selectForCompare": (uri?: vscode.Uri) => {
      selected = selectedUris(uri)?.[0] ?? null;
      return vscode.commands.executeCommand("setContext", "hta.hasSelected", selected !== null);
    },
    "hta.compareWithSelected": (uri?: vscode.Uri, uris?: vscode.Uri[]) => {
      const traces = selectedUris(uri, uris) ?? [];
      const pair = traces.length === 2 ? traces : [selected, traces[0]];
      const paths = pair.filter((trace) => trace !== null && trace !== undefined).map(tracePath);
      if (paths.length === 2) open({ view: "diff", paths });
    },
    "hta.newNotebook": async (uri?: vscode.Uri, uris?: vscode.Uri[]) => {
      const traces = selectedUris(uri, uris) ?? (await pickTraces());
      if (traces.length > 0) await openNotebook(traces.map(tracePath));
    },
  };
}

export function activate(context: vscode.ExtensionContext): void {
  const subscriptions = context.subscriptions;
  const log = vscode.window.createOutputChannel("HTA traces");
  const loading = new LoadingStatus(subscriptions);
  const shared = {
    folder: context.extensionUri,
    log,
    loading: (editor: TraceEditor, text: string | null): void => loading.show(editor, text),
  };
  const open = (request: OpenTraceRequest): void => {
    const names = request.paths.map((tracePath) => path.basename(tracePath));
    const title = request.view === "diff" ? names.join(" ↔ ") : (names[0] ?? "");
    const column = vscode.ViewColumn.Active;
    const panel = vscode.window.createWebviewPanel(PANEL, title, column, OPTIONS);
    new TraceEditor(shared, panel, request);
  };

  const provider: vscode.CustomReadonlyEditorProvider = {
    // The file is opened by Python, not here.
    openCustomDocument: (uri) => ({ uri, dispose: () => undefined }),
    resolveCustomEditor: ({ uri }, panel) => {
      new TraceEditor(shared, panel, { view: "dashboard", paths: [tracePath(uri)] }, uri);
    },
  };

  const restored: vscode.WebviewPanelSerializer = {
    deserializeWebviewPanel: (panel, state: OpenTraceRequest) => {
      new TraceEditor(shared, panel, state);
      return Promise.resolve();
    },
  };
  const options = { webviewOptions: OPTIONS };
  subscriptions.push(
    log,
    ...["hta.trace", "hta.any"].map((type) =>
      vscode.window.registerCustomEditorProvider(type, provider, options),
    ),
    ...Object.entries(makeCommands(loading, open)).map(([name, run]) =>
      vscode.commands.registerCommand(name, run),
    ),
    vscode.window.registerWebviewPanelSerializer(PANEL, restored),
  );
}

/** Return the files for a command: those selected in the explorer, or the active editor's file. */
function selectedUris(uri?: vscode.Uri, uris?: vscode.Uri[]): vscode.Uri[] | null {
  if (uris !== undefined && uris.length > 0) return uris;
  if (uri !== undefined) return [uri];
  const input = vscode.window.tabGroups.activeTabGroup.activeTab?.input;
  return input instanceof vscode.TabInputCustom ? [input.uri] : null;
}

async function pickTraces(): Promise<readonly vscode.Uri[]> {
  const options = { canSelectFiles: true, canSelectFolders: true, canSelectMany: true };
  return (await vscode.window.showOpenDialog({ ...options, openLabel: "Open as one job" })) ?? [];
}

function tracePath(uri: vscode.Uri): string {
  const isStore = path.basename(uri.fsPath) === STORE;
  return isStore ? path.dirname(uri.fsPath) : uri.fsPath;
}

async function openNotebook(paths: string[]): Promise<void> {
  const names = paths.map((path) => JSON.stringify(path)).join(", ");
  const load = `import hta_widgets as hw\n\ntraces = hw.load(${paths.length === 1 ? names : `[${names}]`})`;
  const cells = [load, "dash = hw.Dashboard(traces)\ndash"].map(
    (code) => new vscode.NotebookCellData(vscode.NotebookCellKind.Code, code, "python"),
  );
  const data = new vscode.NotebookData(cells);
  const notebook = await vscode.workspace.openNotebookDocument("jupyter-notebook", data);
  await vscode.window.showNotebookDocument(notebook);
}
