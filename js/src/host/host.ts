/**
 * Run widgets outside Jupyter: models, references and views. Uses the messages of Jupyter widgets
 * (comm_open, comm_msg, comm_close), sent over any transport.
 */

import { getOrMake } from "../protocol/maps";
import { type Manager, RemoteModel, decodeState } from "./models";
import type { BinaryData, WireMessage } from "./wire";

/** Sends messages to Python, and loads the texts to which a model's `_esm` and `_css` refer. */
export interface Transport {
  post(message: WireMessage, buffers: readonly BinaryData[]): void;
  load(name: string): Promise<{ default: unknown }>;
  css(name: string): Promise<string>;
}

/** Import a module from its source text, if the page's policy allows `blob:` scripts. */
export async function importText(source: string): Promise<{ default: unknown }> {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  try {
    return (await import(url)) as { default: unknown };
  } finally {
    URL.revokeObjectURL(url);
  }
}

interface WidgetModule {
  initialize?(props: Record<string, unknown>): unknown;
  render?(props: Record<string, unknown>): unknown;
}

interface RunningModule {
  model: RemoteModel;
  widget: WidgetModule;
  exports: unknown;
}

const MODEL_REFERENCE = /^(anywidget:|IPY_MODEL_)/;
const MODEL_TIMEOUT_MS = 10_000;

const experimental = {
  invoke: (): Promise<never> => Promise.reject(new Error("This page cannot run commands.")),
};

export class WidgetHost {
  private readonly models = new Map<string, RemoteModel>();
  private readonly pendingModels = new Map<string, ((model: RemoteModel) => void)[]>();
  private readonly running = new Map<string, Promise<RunningModule>>();
  private readonly styles = new Set<string>();
  private readonly aborter = new AbortController();
  private readonly manager: Manager;
  private readonly host: Record<string, unknown>;

  /** `terms`: see `HostTerms`. `timeoutMs`: how long to wait for a model. */
  constructor(
    private readonly transport: Transport,
    terms: Record<string, string> | null = null,
    private readonly timeoutMs = MODEL_TIMEOUT_MS,
  ) {
    this.manager = { kernel: { status: "idle" }, words: terms };
    this.host = {
      getModel: (ref: string) => this.model(ref),
      getWidget: async (ref: string) => {
        const { exports } = await this.loadModule(ref);
        const render = ({ el, signal }: { el: HTMLElement; signal?: AbortSignal }): Promise<void> =>
          this.show(ref, el, signal);
        return { exports, render };
      },
    };
  }

  /** Handle a message. Return true if it is addressed to a model. */
  receive({ type, comm, data }: WireMessage, buffers: readonly DataView[] = []): boolean {
    if (!type.startsWith("comm_")) return false;
    const id = String(comm);
    const model = this.models.get(id);
    if (type === "comm_close") {
      model?.emit("comm:close");
      this.models.delete(id);
      this.running.delete(id);
    } else if (model !== undefined) {
      // When a connection is restored, comm_open arrives again, possibly with a newer state.
      model.receive(data as Record<string, unknown>, buffers);
    } else if (type === "comm_open") {
      this.addModel(id, decodeState(data as Record<string, unknown>, buffers));
    }
    return true;
  }

  private addModel(id: string, state: Record<string, unknown>): void {
    const post = (data: Record<string, unknown>, buffers: readonly BinaryData[]): void => {
      if (this.manager.kernel.status === "dead") throw new Error("Python has ended.");
      this.transport.post({ type: "comm_msg", comm: id, data }, buffers);
    };
    const model = new RemoteModel(state, post, this.manager);
    this.models.set(id, model);
    for (const resolveModel of this.pendingModels.get(id) ?? []) resolveModel(model);
    this.pendingModels.delete(id);
  }

  /** Return the model with this reference, waiting for it if necessary. */
  model(ref: string): Promise<RemoteModel> {
    const id = ref.replace(MODEL_REFERENCE, "");
    const model = this.models.get(id);
    if (model !== undefined) return Promise.resolve(model);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`This page has no model ${ref}.`)),
        this.timeoutMs,
      );
      const onFound = (model: RemoteModel): void => {
        clearTimeout(timer);
        resolve(model);
      };
      this.pendingModels.set(id, [...(this.pendingModels.get(id) ?? []), onFound]);
    });
  }

  /** Show a view of a model until the signal aborts. Rejects if the widget's module fails. */
  async show(ref: string, el: HTMLElement, signal = this.aborter.signal): Promise<void> {
    const { model, widget } = await this.loadModule(ref);
    await this.addStyles(model.get("_css"));
    el.dataset.htaPage = "";
    await widget.render?.({ model, el, signal, host: this.host, experimental });
  }

  /** Handle the end of Python. Views remain, and use the data in the page. */
  endModel(): void {
    if (this.manager.kernel.status === "dead") return;
    this.manager.kernel.status = "dead";
    for (const model of this.models.values()) model.emit("comm:close");
  }

  /** Return a model's widget, whose module is loaded on first access. */
  private loadModule(ref: string): Promise<RunningModule> {
    const id = ref.replace(MODEL_REFERENCE, "");
    return getOrMake(this.running, id, () => {
      const running = this.initialize(ref);
      running.catch(() => this.running.delete(id));
      return running;
    });
  }

  private async initialize(ref: string): Promise<RunningModule> {
    const model = await this.model(ref);
    const factory = (await this.transport.load(String(model.get("_esm")))).default;
    const widget = (
      typeof factory === "function" ? await (factory as () => unknown)() : factory
    ) as WidgetModule;
    const { signal } = this.aborter;
    const exports = await widget.initialize?.({ model, signal, experimental });
    return { model, widget, exports };
  }

  /** Add styles once, as a constructed style sheet, which page policies allow. */
  private async addStyles(name: unknown): Promise<void> {
    if (typeof name !== "string" || name === "" || this.styles.has(name)) return;
    this.styles.add(name);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(await this.transport.css(name));
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  }
}

// Fitting a timeline to its window.

const MIN_PX = 320;

/** Fit a timeline to the window height, minus `otherPx` and its open panels. */
export function fitToWindow(view: HTMLElement, timeline: RemoteModel, otherPx: () => number): void {
  let ownHeight: number | null = null;
  const fit = (): void => {
    // The user has dragged the lower edge, so keep that height.
    if (ownHeight !== null && timeline.get("height") !== ownHeight) return;
    // If the rows need less height, the timeline is drawn lower than requested.
    const drawn = view.querySelector<HTMLElement>(".hta-stage-frame")?.offsetHeight;
    const panels = view.offsetHeight - (drawn ?? view.offsetHeight);
    const height = window.innerHeight - otherPx() - panels;
    ownHeight = Math.max(MIN_PX, height);
    timeline.setLocally("height", ownHeight);
  };
  fit();
  window.addEventListener("resize", fit);
  new ResizeObserver(fit).observe(view);
}
