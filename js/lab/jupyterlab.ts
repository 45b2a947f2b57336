/** Types for the parts of JupyterLab's API that the extension uses. */

interface LabSignal<T> {
  connect(slot: (sender: unknown, value: T) => void): void;
}

export interface Widget {
  id: string;
  readonly node: HTMLElement;
  readonly title: { label: string; caption: string; icon: unknown };
  readonly disposed: LabSignal<void>;
  addClass(name: string): void;
}

/** A document or another tab in the main area. */
export interface MainAreaWidget extends Widget {
  readonly content: Widget;
  readonly toolbar: { addItem(name: string, item: Widget): boolean };
  /** Context of the document. */
  readonly context?: DocumentContext;
  readonly sessionContext?: { path: string };
}

export interface DocumentContext {
  readonly path: string;
  readonly localPath: string;
  listCheckpoints(): Promise<unknown[]>;
}

/** The output renderers of a notebook. */
export interface RenderMimeRegistry {
  createRenderer(mimeType: string, options?: object): OutputRenderer;
}

/** A renderer of a widget view, which is a panel. */
interface OutputRenderer extends Widget {
  renderModel(model: { readonly data: Readonly<Record<string, unknown>> }): Promise<void>;
  addWidget(widget: Widget): void;
}

export interface KernelMessage {
  header: { msg_type: string };
  parent_header: { session?: string };
  content: Record<string, unknown>;
  buffers?: DataView[];
}

export interface KernelConnection {
  readonly name: string;
  readonly clientId: string;
  readonly username: string;
  readonly statusChanged: LabSignal<string>;
  readonly disposed: LabSignal<void>;
  readonly iopubMessage: LabSignal<KernelMessage>;
  interrupt(): Promise<void>;
  requestExecute(content: Record<string, unknown>): {
    onIOPub: (message: KernelMessage) => void;
    readonly done: Promise<KernelMessage>;
  };
  sendShellMessage(message: unknown, expectReply: boolean, disposeOnDone: boolean): unknown;
}

export interface SessionConnection {
  readonly kernel: KernelConnection | null;
  dispose(): void;
  shutdown(): Promise<void>;
}

interface ContentsFile {
  readonly path: string;
  readonly type: string;
}

export interface JupyterApp {
  readonly commands: {
    addCommand(id: string, options: Record<string, unknown>): void;
    execute(id: string, args?: unknown): Promise<unknown>;
    notifyCommandChanged(id: string): void;
  };
  readonly docRegistry: Record<
    "addFileType" | "addModelFactory" | "addWidgetFactory",
    (added: object) => void
  > & {
    addWidgetExtension(
      factory: string,
      extension: { createNew(panel: { content: { rendermime: RenderMimeRegistry } }): void },
    ): void;
  };
  readonly serviceManager: {
    readonly sessions: {
      readonly ready: Promise<void>;
      refreshRunning(): Promise<void>;
      running(): Iterable<{ path: string }>;
      connectTo(options: object): SessionConnection;
      startNew(create: object, connect: object): Promise<SessionConnection>;
    };
    readonly contents: {
      newUntitled(options: { path: string; type: string }): Promise<ContentsFile>;
      save(path: string, file: object): Promise<ContentsFile>;
    };
  };
  readonly shell: {
    readonly currentWidget: Widget | null;
    add(widget: Widget, area: string): void;
    activateById(id: string): void;
    widgets(area: string): Iterable<MainAreaWidget>;
  };
}

/** Exports of the JupyterLab packages. Notebook 7 lacks some of them. */
export interface Lab {
  ABCWidgetFactory: new (options: object) => { readonly widgetCreated: LabSignal<MainAreaWidget> };
  DocumentModel: new (options: object) => object;
  DocumentWidget: new (options: object) => MainAreaWidget;
  MainAreaWidget: new (options: object) => MainAreaWidget;
  ToolbarButton: new (options: object) => Widget;
  Widget: new () => Widget;
  LabIcon: new (options: { name: string; svgstr: string }) => unknown;
  WidgetTracker: new (options: { namespace: string }) => {
    add(widget: Widget): Promise<void>;
    find(test: (widget: Widget) => boolean): Widget | undefined;
  };
  FileDialog: { getOpenFiles(options: object): Promise<{ value: readonly ContentsFile[] | null }> };
  PageConfig: {
    getOption(name: string): string;
    getUrl(options: { workspace: string; treePath: string; toShare: boolean }): string;
    readonly defaultWorkspace: string;
  };
  KernelMessage: { createMessage(options: object): unknown };
  PathExt: Record<"basename" | "dirname", (path: string) => string> & {
    relative(from: string, to: string): string;
  };
  ILabShell?: unknown;
  ILayoutRestorer?: unknown;
  ISettingRegistry?: unknown;
  IDefaultFileBrowser?: unknown;
  ICommandPalette?: unknown;
  ILauncher?: unknown;
}

/** The services for tokens of the same names; null if the application does not provide one. */
export interface Services {
  ILabShell: object | null;
  ILayoutRestorer: { restore(tracker: unknown, options: object): Promise<void> } | null;
  ISettingRegistry: {
    load(id: string): Promise<{ get(key: string): { composite?: unknown } }>;
  } | null;
  IDefaultFileBrowser: {
    readonly model: { readonly manager: object };
    selectedItems(): Iterable<ContentsFile>;
  } | null;
  ICommandPalette: { addItem(item: object): void } | null;
  ILauncher: { add(item: object): void } | null;
}
