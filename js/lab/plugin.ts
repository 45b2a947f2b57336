/** Traces in JupyterLab's file browser: file types, documents, commands. */

import { splitFragment } from "../src/connection/address";
import base from "../src/timeline/style/base.css?raw";
import host from "../src/host/host.css?raw";
import type { OpenViewRequest } from "../src/host/start";
import type { JupyterApp, DocumentContext, Lab, Services, MainAreaWidget } from "./jupyterlab";
import { showFallbacks } from "./fallback";
import own from "./lab.css?raw";
import icon from "./trace.svg?raw";
import { type TabAddress, TraceView } from "./trace_view";

const ID = "hta-widgets:plugin";
const FACTORY = "Trace dashboard";
const MODEL = "hta-path";
const CATEGORY = "Traces";
/** JupyterLab uses the longest matching extension: `.pt.trace.json` matches `.trace.json`. */
const TYPES = [
  // JupyterLab cannot show compressed files otherwise: its editor requires UTF-8.
  { name: "hta-trace", extensions: [".trace.json", ".json.gz", ".json.zst", ".trc"] },
  { name: "hta-named", extensions: [], pattern: "^(comm|server_profile|store)\\.json$" },
];
const TRACE = /\.(json|trc)(\.gz|\.zst)?$/i;
const OPEN = "hta-widgets:open";
/** Begins the fragment of an address that contains the state of a view. */
const FRAGMENT = "#hta";

export function makePlugin(lab: Lab): object {
  const names = [
    ...(["ILabShell", "ILayoutRestorer", "ISettingRegistry", "IDefaultFileBrowser"] as const),
    ...(["ICommandPalette", "ILauncher"] as const),
  ];
  // Notebook 7 lacks some tokens, and requiring a missing token fails.
  const present = names.filter((name) => lab[name] !== undefined);
  const optional = present.map((name) => lab[name]);
  const activate = (app: JupyterApp, ...loaded: unknown[]): void => {
    const services = names.map((name) => [name, loaded[present.indexOf(name)] ?? null] as const);
    addTraces(lab, app, Object.fromEntries(services) as unknown as Services);
  };
  return { id: ID, autoStart: true, optional, activate };
}

function addTraces(lab: Lab, app: JupyterApp, services: Services): void {
  const tabs = new TraceTabs(lab, app, services);
  addStyles();
  addDocuments(tabs);
  addOpenCommands(tabs);
  addSelectCommands(tabs);
  addViewCommands(tabs);
  app.docRegistry.addWidgetExtension("Notebook", {
    createNew: ({ content }) => showFallbacks(content.rendermime),
  });
  if (!tabs.isLab) return;
  for (const command of [OPEN, "hta-widgets:console", "hta-widgets:notebook"]) {
    services.ICommandPalette?.addItem({ command, category: CATEGORY });
  }
  services.ILauncher?.add({ command: OPEN, category: CATEGORY, args: { isLauncher: true } });
}

function addStyles(): void {
  const sheet = new CSSStyleSheet();
  // Views load these rules too. Here they apply only to bars and cards: as a later copy, they would
  // override the rules that follow them in a view.
  const cards = base.replaceAll(".hta-root", ":is(.hta-host-bar, .hta-host-card)");
  sheet.replaceSync(`${cards}${host}${own}`);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

/** Opens tabs with views of traces, and finds the view of a tab. */
class TraceTabs {
  readonly isLab: boolean;
  readonly traceIcon;
  private readonly jobs;
  private readonly views = new WeakMap<object, TraceView>();
  private readonly settings;

  constructor(
    readonly lab: Lab,
    readonly app: JupyterApp,
    readonly services: Services,
  ) {
    this.isLab = services.ILabShell !== null;
    this.traceIcon = new lab.LabIcon({ name: "hta-widgets:trace", svgstr: icon });
    this.settings = services.ISettingRegistry?.load(ID).catch(() => null);
    this.jobs = new lab.WidgetTracker({ namespace: "hta-jobs" });
    void services.ILayoutRestorer?.restore(this.jobs, {
      command: OPEN,
      args: (tab: MainAreaWidget) => this.viewOf(tab)?.request,
      name: ({ id }: MainAreaWidget) => id,
    });
  }

  /** Name of the kernel for new views; "" for the server's default. */
  readonly kernelName = async (): Promise<string> =>
    ((await this.settings)?.get("kernel").composite as string | undefined) ?? "";

  makeView(request: OpenViewRequest, address: TabAddress | null = null): TraceView {
    const view = new TraceView(this.lab, this.app, request, this.kernelName, address);
    this.views.set(view.widget, view);
    return view;
  }

  /** The view in the current tab. */
  get current(): TraceView | undefined {
    return this.viewOf(this.app.shell.currentWidget);
  }

  addButtons(tab: MainAreaWidget): void {
    const { ToolbarButton } = this.lab;
    const console = ["console", "Console", "A console on the kernel of this view"] as const;
    const buttons = [
      ...(this.isLab ? [console] : []),
      ["notebook", "Notebook", "A new notebook that opens these traces"] as const,
    ];
    for (const [name, label, tooltip] of buttons) {
      const onClick = (): void => void this.app.commands.execute(`hta-widgets:${name}`);
      tab.toolbar.addItem(name, new ToolbarButton({ label, tooltip, onClick }));
    }
  }

  /** Show files or folders as a job, in a new tab or in the tab that already shows them. */
  show(request: OpenViewRequest): void {
    const id = `hta-${request.view}-${request.paths.join("|")}`;
    if (this.jobs.find((job) => job.id === id) === undefined) {
      const view = this.makeView(request);
      const tab = new this.lab.MainAreaWidget({ content: view.widget });
      const label = request.paths
        .map((path) => this.lab.PathExt.basename(path))
        .join(request.view === "diff" ? " → " : ", ");
      Object.assign(tab.title, { label, caption: request.paths.join("\n"), icon: this.traceIcon });
      tab.id = id;
      this.addButtons(tab);
      this.app.shell.add(tab, "main");
      void this.jobs.add(tab);
    }
    this.app.shell.activateById(id);
  }

  private viewOf(tab: object | null): TraceView | undefined {
    return this.views.get((tab as MainAreaWidget | null)?.content ?? {});
  }
}

/** Open trace files as documents. A double-click shows a dashboard. */
function addDocuments(tabs: TraceTabs): void {
  const { lab, traceIcon, isLab } = tabs;
  const { docRegistry } = tabs.app;
  addFileTypes(tabs);
  const addressOf = makeAddresses(lab);
  class TraceFactory extends lab.ABCWidgetFactory {
    createNewWidget(context: DocumentContext): MainAreaWidget {
      // The server creates the checkpoint folder even if checkpoints are only listed.
      context.listCheckpoints = () => Promise.resolve([]);
      const address = isLab ? addressOf(context.path) : null;
      const request = { view: "dashboard" as const, paths: [context.localPath] };
      const { widget: content } = tabs.makeView(request, address);
      const tab = new lab.DocumentWidget({ context, content });
      tab.title.icon = traceIcon;
      tabs.addButtons(tab);
      return tab;
    }
  }
  const defaultFor = TYPES.map(({ name }) => name);
  // Plain JSON is seldom a trace, so the view is offered only in "Open With".
  const fileTypes = [...defaultFor, "json"];
  const options = { name: FACTORY, modelName: MODEL, fileTypes, defaultFor, readOnly: true };
  const factory = new TraceFactory(options);
  docRegistry.addWidgetFactory(factory);
  const documents = new lab.WidgetTracker({ namespace: "hta-traces" });
  factory.widgetCreated.connect((_, tab) => void documents.add(tab));
  void tabs.services.ILayoutRestorer?.restore(documents, {
    command: "docmanager:open",
    args: ({ context }: MainAreaWidget) => ({ path: context?.path, factory: FACTORY }),
    name: ({ context }: MainAreaWidget) => context?.path,
  });
}

/** Add the file types of traces and their model, which holds no contents. */
function addFileTypes({ lab, traceIcon, app: { docRegistry } }: TraceTabs): void {
  const common = { displayName: "Trace", mimeTypes: ["application/json"], icon: traceIcon };
  for (const type of TYPES) {
    // Without a format, the server returns the date of a file but not its contents.
    docRegistry.addFileType({ ...common, contentType: "file", fileFormat: null, ...type });
  }
  docRegistry.addModelFactory({
    name: MODEL,
    contentType: "file",
    fileFormat: null,
    collaborative: false,
    isDisposed: false,
    dispose: () => undefined,
    preferredLanguage: () => "",
    // This model cannot be saved, so the server makes no checkpoint (a copy of the file).
    createNew: (options: object) =>
      new lab.DocumentModel({ ...options, collaborationEnabled: true }),
  });
}

/** Add the command that opens files or a folder as one job. */
function addOpenCommands(tabs: TraceTabs): void {
  const { lab } = tabs;
  const choosePaths = async (): Promise<readonly string[]> => {
    const manager = tabs.services.IDefaultFileBrowser?.model.manager;
    const { value } = await lab.FileDialog.getOpenFiles({ manager, title: "Traces of one job" });
    return (value ?? []).map(({ path }) => path);
  };
  tabs.app.commands.addCommand(OPEN, {
    label: ({ isLauncher }: { isLauncher?: boolean }) =>
      isLauncher ? "Dashboard" : "Open Traces…",
    caption: "Choose files or a folder, and open them as one job",
    icon: tabs.traceIcon,
    execute: async ({ view = "dashboard", paths }: Partial<OpenViewRequest>) => {
      const chosenPaths = paths ?? (await choosePaths());
      if (chosenPaths.length > 0) tabs.show({ view, paths: [...chosenPaths] });
    },
  });
}

function addSelectCommands(tabs: TraceTabs): void {
  const { commands } = tabs.app;
  const { basename } = tabs.lab.PathExt;
  const selectedPaths = (): string[] => {
    const items = [...(tabs.services.IDefaultFileBrowser?.selectedItems() ?? [])];
    const isTrace = items.every(({ path, type }) => type === "directory" || TRACE.test(path));
    return tabs.isLab && isTrace ? items.map(({ path }) => path) : [];
  };
  let firstPath = "";
  commands.addCommand("hta-widgets:open-selected", {
    label: "Open Trace Dashboard",
    icon: tabs.traceIcon,
    isVisible: () => selectedPaths().length > 0,
    execute: () => tabs.show({ view: "dashboard", paths: selectedPaths() }),
  });
  commands.addCommand("hta-widgets:select", {
    label: "Select for Compare",
    isVisible: () => selectedPaths().length === 1,
    execute: () => {
      [firstPath = ""] = selectedPaths();
      commands.notifyCommandChanged("hta-widgets:compare");
    },
  });
  commands.addCommand("hta-widgets:compare", {
    label: () => `Compare with “${basename(firstPath)}”`,
    isVisible: () => {
      const [path, ...others] = selectedPaths();
      return firstPath !== "" && path !== undefined && others.length === 0 && path !== firstPath;
    },
    execute: () => tabs.show({ view: "diff", paths: [firstPath, ...selectedPaths()] }),
  });
}

function addViewCommands(tabs: TraceTabs): void {
  const { commands, serviceManager } = tabs.app;
  commands.addCommand("hta-widgets:console", {
    label: "Console for These Traces",
    isEnabled: () => tabs.current !== undefined,
    execute: () => {
      const path = tabs.current?.sessionPath;
      if (path === undefined) return null;
      return commands.execute("console:create", {
        path,
        activate: true,
        insertMode: "split-bottom",
      });
    },
  });
  commands.addCommand("hta-widgets:notebook", {
    label: "Notebook for These Traces",
    isEnabled: () => tabs.current !== undefined,
    execute: async () => {
      const view = tabs.current;
      if (view === undefined) return;
      const folder = tabs.lab.PathExt.dirname(view.request.paths[0] ?? "");
      const { path } = await serviceManager.contents.newUntitled({
        path: folder,
        type: "notebook",
      });
      const content = notebookContent(view);
      await serviceManager.contents.save(path, { type: "notebook", format: "json", content });
      const name = await tabs.kernelName();
      await commands.execute("docmanager:open", {
        path,
        kernel: name === "" ? undefined : { name },
      });
    },
  });
}

/** Return a function that makes addresses. The page's own state belongs to the file in its path. */
function makeAddresses({ PageConfig }: Lab): (treePath: string) => TabAddress {
  // When JupyterLab has opened the file, it drops the fragment and changes the path.
  const [fragment, linked] = splitFragment(location.hash);
  const [linkedPath, workspace] = [PageConfig.getOption("treePath"), PageConfig.defaultWorkspace];
  let pendingState = fragment === FRAGMENT ? linked : "";
  return (treePath) => {
    const base = `${PageConfig.getUrl({ workspace, treePath, toShare: true })}${FRAGMENT}`;
    const state = treePath === linkedPath ? pendingState : "";
    if (state !== "") pendingState = "";
    return { base, state, isPage: false, reach: "for users of this JupyterLab" };
  };
}

/** Return a notebook that opens the traces of a view. */
function notebookContent(view: TraceView): object {
  const names = view.request.paths.map((path) => JSON.stringify(view.nameOf(path)));
  const source = names.length === 1 ? names[0] : `[${names.join(", ")}]`;
  const load =
    view.request.view === "diff"
      ? [
          `before, after = hw.load(${names[0]}), hw.load(${names[1]})`,
          "hw.TraceDiff(before, after)",
        ]
      : [`traces = hw.load(${source})`, "dash = hw.Dashboard(traces)\ndash"];
  const cells = [`import hta_widgets as hw\n\n${load[0]}`, load[1]].map((source, place) => ({
    cell_type: "code",
    id: `hta-${place}`,
    metadata: {},
    outputs: [],
    execution_count: null,
    source,
  }));
  return { cells, metadata: {}, nbformat: 4, nbformat_minor: 5 };
}
