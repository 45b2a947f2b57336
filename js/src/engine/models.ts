/** A widget host for pages without Jupyter: models, references and views. */

type Listener = (...args: unknown[]) => void;

/** Model with anywidget's interface, for as long as the page lives; nothing is saved. */
export class PageModel {
  private readonly listeners = new Map<string, Set<Listener>>();

  constructor(private readonly state: Record<string, unknown>) {}

  get(key: string): unknown {
    return this.state[key];
  }

  set(key: string, value: unknown): void {
    if (this.state[key] === value) return;
    this.state[key] = value;
    this.emit(`change:${key}`, value);
    this.emit("change", value);
  }

  on(event: string, listener: Listener): void {
    const known = this.listeners.get(event);
    if (known === undefined) this.listeners.set(event, new Set([listener]));
    else known.add(listener);
  }

  off(event?: string | null, listener?: Listener | null): void {
    if (event === undefined || event === null) this.listeners.clear();
    else if (listener === undefined || listener === null) this.listeners.delete(event);
    else this.listeners.get(event)?.delete(listener);
  }

  /** Do nothing: a saved page has no kernel to save to. */
  save_changes(): void {}

  /** Do nothing: the page itself holds the replies. */
  send(): void {}

  private emit(event: string, value: unknown): void {
    for (const listener of [...(this.listeners.get(event) ?? [])]) listener(this, value);
  }
}

/** Exports of an anywidget module. */
interface WidgetModule {
  initialize?(props: Record<string, unknown>): unknown;
  render?(props: Record<string, unknown>): unknown;
}

export interface ModelSpec {
  /** Name of its module. */
  module: string;
  state: Record<string, unknown>;
}

interface Running {
  model: PageModel;
  widget: WidgetModule;
  exports: unknown;
}

const REFERENCE = /^(anywidget:|IPY_MODEL_)/;

export class PageHost {
  readonly models: Record<string, PageModel> = {};
  private readonly running = new Map<string, Promise<Running>>();
  private readonly ended = new AbortController();
  private readonly host: Record<string, unknown>;

  /** `load` gives the default export of a module by its name. */
  constructor(
    private readonly specs: Readonly<Record<string, ModelSpec>>,
    private readonly load: (module: string) => Promise<unknown>,
  ) {
    this.host = {
      getModel: async (ref: string) => Promise.resolve(this.named(ref)),
      getWidget: async (ref: string) => {
        const id = ref.replace(REFERENCE, "");
        const { exports } = await this.start(id);
        const render = ({ el, signal }: { el: HTMLElement; signal?: AbortSignal }): Promise<void> =>
          this.show(id, el, signal);
        return { exports, render };
      },
    };
    for (const [id, { state }] of Object.entries(specs)) this.models[id] = new PageModel(state);
  }

  /** Show a view of a model. Rejects where its module fails. */
  async show(id: string, el: HTMLElement, signal = this.ended.signal): Promise<void> {
    const { model, widget } = await this.start(id);
    const experimental = { invoke: noKernel };
    await widget.render?.({ model, el, signal, host: this.host, experimental });
  }

  private named(ref: string): PageModel {
    const model = this.models[ref.replace(REFERENCE, "")];
    if (model === undefined) throw new Error(`This page has no model ${ref}.`);
    return model;
  }

  /** The widget of a model. Its module is loaded on first access. */
  private start(id: string): Promise<Running> {
    const spec = this.specs[id];
    if (spec === undefined) return Promise.reject(new Error(`This page has no model ${id}.`));
    let running = this.running.get(id);
    if (running === undefined) {
      running = this.initialize(id, spec.module);
      this.running.set(id, running);
    }
    return running;
  }

  private async initialize(id: string, module: string): Promise<Running> {
    const made = await this.load(module);
    const widget = (
      typeof made === "function" ? await (made as () => unknown)() : made
    ) as WidgetModule;
    const model = this.models[id]!;
    const { signal } = this.ended;
    const experimental = { invoke: noKernel };
    const exports = await widget.initialize?.({ model, signal, experimental });
    return { model, widget, exports };
  }
}

function noKernel(): Promise<never> {
  return Promise.reject(new Error("A saved page has no kernel to call."));
}
