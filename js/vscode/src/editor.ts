/** A view: its panel, its page, and its Python process. */

import { randomBytes } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Action, FromPage, OpenTraceRequest, HostProblem, ToPage } from "./messages";
import { explainEnd, findPython, HostProcess } from "./python";

/** Python starts when a tab has been visible for this long, so not while tabs are switched. */
const SEEN_MS = 300;
const PREVIEW_MS = 1500;
const MINUTE_MS = 60_000;
const MEGABYTE = 1e6;

/** State shared by all views. */
export interface EditorServices {
  folder: vscode.Uri;
  log: vscode.OutputChannel;
  /** Show in the status bar what a view loads; null if it loads nothing. */
  loading(editor: TraceEditor, text: string | null): void;
}

export class TraceEditor {
  private host: HostProcess | null = null;
  private python = "";
  /** Number of starts and stops. Results of earlier starts are dropped. */
  private attempt = 0;
  private isReady = false;
  private hasBegun = false;
  private isLoading = false;
  private visibleTimer: NodeJS.Timeout | undefined;
  private idleTimer: NodeJS.Timeout | undefined;
  private readonly disposables: vscode.Disposable[];

  constructor(
    private readonly shared: EditorServices,
    private readonly panel: vscode.WebviewPanel,
    readonly request: OpenTraceRequest,
    private readonly uri = vscode.Uri.file(request.paths[0] ?? ""),
  ) {
    this.disposables = [
      panel.webview.onDidReceiveMessage((message: FromPage) => this.receive(message)),
      panel.onDidChangeViewState(() => this.updateVisibility()),
      vscode.window.tabGroups.onDidChangeTabs(() => this.updateVisibility()),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration("hta.colors")) this.sendColors();
      }),
      panel.onDidDispose(() => this.dispose()),
    ];
    const media = vscode.Uri.joinPath(shared.folder, "media");
    panel.webview.options = { enableScripts: true, localResourceRoots: [media] };
    panel.webview.html = this.page(media);
  }

  cancel(): void {
    this.post({ type: "cancel" });
  }

  private receive(message: FromPage): void {
    if (message.type === "ready") {
      this.isReady = true;
      this.sendColors();
      this.updateVisibility();
    } else if (message.type === "frame") {
      this.host?.write(message.frame);
      this.touch();
    } else if (message.type === "loading") this.showLoading(message.text);
    else if (message.type === "action") void this.act(message.action);
    else if (message.type === "source") void showSource(message.path, message.line);
    else void this.save(message.name, message.file);
  }

  /** Begin when the tab has been visible for a while. */
  private updateVisibility(): void {
    clearTimeout(this.visibleTimer);
    if (!this.isReady || this.hasBegun || !this.panel.visible) return;
    this.visibleTimer = setTimeout(
      () => void this.begin(),
      this.isPreview() ? PREVIEW_MS : SEEN_MS,
    );
  }

  private isPreview(): boolean {
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    return tabs.some(
      ({ input, isPreview }) =>
        isPreview &&
        input instanceof vscode.TabInputCustom &&
        input.uri.toString() === this.uri.toString(),
    );
  }

  /** Start, but ask first if there is much to read. */
  private async begin(): Promise<void> {
    this.hasBegun = true;
    const limit = this.setting<number>("askAboveMB", 1000);
    const sizes = await Promise.all(this.request.paths.map(fileSize));
    const megabytes = sizes.reduce((sum, size) => sum + size, 0) / MEGABYTE;
    if (limit === 0 || megabytes <= limit) return this.start();
    const sizeText =
      megabytes < 1000 ? `${megabytes.toFixed(0)} MB` : `${(megabytes / 1000).toFixed(1)} GB`;
    const message = `The files are ${sizeText} in size`;
    const remedy = `VS Code asks before it reads more than ${limit} MB (setting hta.askAboveMB).`;
    this.post({ type: "problem", problem: { message, remedy, load: "Load" } });
  }

  private async start(): Promise<void> {
    this.stop();
    const attempt = this.attempt;
    const cwd = this.shared.folder.fsPath;
    const python = await findPython(this.uri);
    if (attempt !== this.attempt) return;
    this.python = python;
    this.post({ type: "started" });
    this.showLoading("Starting Python");
    this.host = new HostProcess(python, cwd, this.request, {
      onFrame: (frame) => {
        this.post({ type: "frame", frame });
        this.touch();
      },
      onLog: (text) => this.shared.log.append(text),
      onEnded: (problem, isEarly) => {
        const explained = isEarly ? explainEnd(python, cwd, problem) : Promise.resolve(problem);
        void explained.then((why) => attempt === this.attempt && this.end(why));
      },
    });
  }

  private async act(action: Action): Promise<void> {
    if (action === "choose") {
      const pythonPath = this.setting<string>("python", "");
      const hasPython = vscode.extensions.getExtension("ms-python.python") !== undefined;
      if (hasPython && pythonPath === "")
        await vscode.commands.executeCommand("python.setInterpreter");
      else await vscode.commands.executeCommand("workbench.action.openSettings", "hta.python");
      return;
    }
    if (action === "install" && !(await install(this.python, this.shared.folder.fsPath))) return;
    await this.start();
  }

  /** Restart the timer that stops an idle Python process. */
  private touch(): void {
    clearTimeout(this.idleTimer);
    const minutes = this.setting<number>("idleMinutes", 60);
    if (minutes === 0 || this.host === null) return;
    this.idleTimer = setTimeout(() => {
      if (this.isLoading) this.touch();
      else this.end({ message: `Python was stopped after ${minutes} minutes of inactivity` });
    }, minutes * MINUTE_MS);
  }

  private async save(name: string, file: string | ArrayBuffer): Promise<void> {
    const folder = path.dirname(this.request.paths[0] ?? "");
    const defaultUri = vscode.Uri.file(path.join(folder, name));
    const target = await vscode.window.showSaveDialog({ defaultUri });
    if (target === undefined) return;
    try {
      const { fs } = vscode.workspace;
      if (typeof file !== "string") await fs.writeFile(target, new Uint8Array(file));
      else await fs.copy(vscode.Uri.file(file), target, { overwrite: true });
      void vscode.window.showInformationMessage(`Saved ${target.fsPath}`);
    } catch (error) {
      void vscode.window.showErrorMessage(`${target.fsPath} cannot be written: ${String(error)}`);
    }
  }

  private end(problem: HostProblem): void {
    this.stop();
    this.post({ type: "ended", problem });
  }

  private stop(): void {
    this.attempt += 1;
    clearTimeout(this.idleTimer);
    this.host?.dispose();
    this.host = null;
    this.showLoading(null);
  }

  private dispose(): void {
    this.stop();
    this.hasBegun = true;
    clearTimeout(this.visibleTimer);
    for (const disposable of this.disposables) disposable.dispose();
  }

  private showLoading(text: string | null): void {
    this.isLoading = text !== null;
    this.shared.loading(this, text);
  }

  private sendColors(): void {
    this.post({ type: "colors", colors: this.setting<string>("colors", "editor") });
  }

  private setting<T>(name: string, other: T): T {
    return vscode.workspace.getConfiguration("hta", this.uri).get<T>(name, other);
  }

  private post(message: ToPage): void {
    void this.panel.webview.postMessage(message);
  }

  private page(media: vscode.Uri): string {
    const { webview } = this.panel;
    const address = (name: string): string =>
      webview.asWebviewUri(vscode.Uri.joinPath(media, name)).toString();
    const nonce = randomBytes(16).toString("base64");
    const source = webview.cspSource;
    // blob: the widget modules come from Python, so that they match the installed hta_widgets.
    const csp =
      `default-src 'none'; script-src 'nonce-${nonce}' blob:; style-src ${source} 'unsafe-inline'; ` +
      `img-src ${source} data: blob:; font-src data:; base-uri 'none'; form-action 'none'`;
    const state = escape(JSON.stringify(this.request));
    return (
      `<!doctype html><html lang="en"><meta charset="utf-8">` +
      `<meta http-equiv="Content-Security-Policy" content="${csp}">` +
      `<link rel="stylesheet" href="${address("webview.css")}">` +
      `<body><main id="view" data-request="${state}"></main>` +
      `<script nonce="${nonce}" src="${address("webview.js")}"></script>`
    );
  }
}

function escape(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/"/g, "&quot;").replace(/</g, "&lt;");
}

/** Show a line of a file in the workspace, or at an absolute path, beside the view. */
async function showSource(name: string, line: number): Promise<void> {
  // Pattern characters match any character; the path is compared below.
  const pattern = `**/${path.posix.basename(name).replace(/[^\w.-]/g, "?")}`;
  const candidates = path.isAbsolute(name) ? [] : await vscode.workspace.findFiles(pattern);
  const inWorkspace = candidates.find(({ fsPath }) => `/${fsPath}`.endsWith(`/${name}`));
  const uri = path.isAbsolute(name) ? vscode.Uri.file(name) : inWorkspace;
  try {
    if (uri === undefined) throw new Error("no file of the workspace ends with this path");
    const at = new vscode.Position(Math.max(0, line - 1), 0);
    const viewColumn = vscode.ViewColumn.Beside;
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(at, at), viewColumn });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    void vscode.window.showErrorMessage(`${name} cannot be opened: ${reason}`);
  }
}

/** Return the size of a file, or of all files in a folder, in bytes. */
async function fileSize(name: string): Promise<number> {
  try {
    const stats = await stat(name);
    if (!stats.isDirectory()) return stats.size;
    const entries = await readdir(name, { withFileTypes: true });
    const sizes = entries
      .filter((entry) => !entry.isSymbolicLink() && !entry.name.startsWith("."))
      .map((entry) => fileSize(path.join(name, entry.name)));
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  } catch {
    return 0; // Python reports the error
  }
}

/** Install hta_widgets in a terminal. Return whether it succeeded. */
async function install(python: string, cwd: string): Promise<boolean> {
  const args = ["-m", "pip", "install", "--upgrade", "hta_widgets"];
  const name = "Install hta_widgets";
  const command = new vscode.ProcessExecution(python, args, { cwd });
  const task = new vscode.Task({ type: "hta" }, vscode.TaskScope.Workspace, name, "HTA", command);
  const running = await vscode.tasks.executeTask(task);
  return new Promise((resolve) => {
    const listener = vscode.tasks.onDidEndTaskProcess(({ execution, exitCode }) => {
      if (execution !== running) return;
      listener.dispose();
      resolve(exitCode === 0);
    });
  });
}
