/** The part of VS Code's module that the extension uses, for tests without an editor. */

type Listener = (value: any) => unknown;

class FakeEmitter {
  private readonly listeners = new Set<Listener>();
  readonly on = (listener: Listener): { dispose(): void } => {
    this.listeners.add(listener);
    return { dispose: () => void this.listeners.delete(listener) };
  };
  fire(value?: unknown): void {
    for (const listener of [...this.listeners]) listener(value);
  }
}

export class Uri {
  constructor(readonly fsPath: string) {}
  static file(path: string): Uri {
    return new Uri(path);
  }
  static joinPath(base: Uri, ...parts: string[]): Uri {
    return new Uri([base.fsPath, ...parts].join("/"));
  }
  toString(): string {
    return `file://${this.fsPath}`;
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}
}

export class TabInputCustom {
  constructor(
    readonly uri: Uri,
    readonly viewType: string,
  ) {}
}

/** A panel whose page is a list of messages. */
export class Panel {
  readonly heard: any[] = [];
  readonly fromPage = new FakeEmitter();
  readonly viewState = new FakeEmitter();
  readonly closed = new FakeEmitter();
  visible = true;
  onDidChangeViewState = this.viewState.on;
  onDidDispose = this.closed.on;
  webview = {
    options: {},
    html: "",
    cspSource: "vscode-resource:",
    asWebviewUri: (uri: Uri) => uri,
    onDidReceiveMessage: this.fromPage.on,
    postMessage: async (message: unknown) => this.heard.push(message),
  };
  say(message: unknown): void {
    this.fromPage.fire(message);
  }
  types(): string[] {
    return this.heard.map(({ type }) => String(type));
  }
}

const tabsChanged = new FakeEmitter();
const tasksEnded = new FakeEmitter();

/** Values that a test sets and checks. */
const fresh = () => ({
  settings: {} as Record<string, unknown>,
  extensions: {} as Record<string, unknown>,
  providers: {} as Record<string, any>,
  serializers: {} as Record<string, any>,
  commands: {} as Record<string, (...given: any[]) => any>,
  executed: [] as unknown[][],
  panels: [] as Panel[],
  tabs: [] as unknown[],
  tasks: [] as any[],
  taskCode: 0,
  saveTo: undefined as Uri | undefined,
  copied: [] as unknown[],
  said: [] as string[],
  files: [] as string[],
  shown: [] as unknown[],
  notebooks: [] as any[],
  status: {
    text: "",
    shown: false,
    show: () => (fake.status.shown = true),
    hide: () => (fake.status.shown = false),
    dispose: () => {},
  },
});

export const fake = { ...fresh(), tabsChanged, reset: () => Object.assign(fake, fresh()) };

export const window = {
  createOutputChannel: () => ({ append: (text: string) => fake.said.push(text), dispose() {} }),
  createStatusBarItem: () => fake.status,
  createWebviewPanel: () => {
    const panel = new Panel();
    fake.panels.push(panel);
    return panel;
  },
  registerCustomEditorProvider: (type: string, provider: unknown) => {
    fake.providers[type] = provider;
    return { dispose() {} };
  },
  registerWebviewPanelSerializer: (type: string, one: unknown) => {
    fake.serializers[type] = one;
    return { dispose() {} };
  },
  showSaveDialog: async () => fake.saveTo,
  showOpenDialog: async () => undefined,
  showInformationMessage: async (text: string) => fake.said.push(text),
  showErrorMessage: async (text: string) => fake.said.push(text),
  showTextDocument: async (uri: Uri, { selection }: { selection: Range }) =>
    fake.shown.push(`${uri.fsPath}:${selection.start.line}`),
  showNotebookDocument: async () => undefined,
  tabGroups: {
    get all() {
      return [{ tabs: fake.tabs }];
    },
    get activeTabGroup() {
      return { activeTab: fake.tabs[0] };
    },
    onDidChangeTabs: tabsChanged.on,
  },
};

export const workspace = {
  getConfiguration: () => ({ get: (name: string, other: unknown) => fake.settings[name] ?? other }),
  getWorkspaceFolder: () => ({ uri: new Uri("/work space") }),
  findFiles: async (pattern: string) => {
    const name = new RegExp(
      `/${pattern.replace("**/", "").replaceAll(".", "\\.").replaceAll("?", ".")}$`,
    );
    return fake.files.filter((path) => name.test(path)).map((path) => new Uri(path));
  },
  onDidChangeConfiguration: new FakeEmitter().on,
  fs: {
    copy: async (from: Uri, to: Uri) => fake.copied.push([from.fsPath, to.fsPath]),
    writeFile: async (to: Uri, bytes: Uint8Array) => fake.copied.push([[...bytes], to.fsPath]),
  },
  openNotebookDocument: async (_type: string, data: unknown) => fake.notebooks.push(data),
};

export const commands = {
  registerCommand: (name: string, run: (...given: any[]) => any) => {
    fake.commands[name] = run;
    return { dispose() {} };
  },
  executeCommand: async (...words: unknown[]) => fake.executed.push(words),
};

export const extensions = { getExtension: (name: string) => fake.extensions[name] };

export const tasks = {
  executeTask: async (task: unknown) => {
    fake.tasks.push(task);
    setTimeout(() => tasksEnded.fire({ execution: task, exitCode: fake.taskCode }));
    return task;
  },
  onDidEndTaskProcess: tasksEnded.on,
};

export class ProcessExecution {
  constructor(
    readonly process: string,
    readonly args: string[],
  ) {}
}

export class Task {
  constructor(
    _definition: unknown,
    _scope: unknown,
    readonly name: string,
    _source: string,
    readonly execution: ProcessExecution,
  ) {}
}

export class NotebookCellData {
  constructor(
    _kind: unknown,
    readonly value: string,
  ) {}
}

export class NotebookData {
  constructor(readonly cells: NotebookCellData[]) {}
}

export const StatusBarAlignment = { Left: 1 };
export const ViewColumn = { Active: -1, Beside: -2 };
export const TaskScope = { Workspace: 2 };
export const NotebookCellKind = { Code: 2 };
