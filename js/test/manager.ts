/** The real anywidget runtime on the real ipywidgets manager, in a browser without Jupyter. */

import * as base from "@jupyter-widgets/base";
import { ManagerBase } from "@jupyter-widgets/base-manager";

type Factory = (base: unknown) => Record<string, unknown>;

/** npm's anywidget is an AMD module; the manager of a notebook defines it the same way. */
async function loadAnywidget(): Promise<Record<string, unknown>> {
  const scope = globalThis as { define?: unknown };
  let factory: Factory | undefined;
  const before = scope.define;
  scope.define = (_names: string[], make: Factory) => {
    factory = make;
  };
  try {
    // @ts-expect-error: the package has no types of its runtime
    await import("anywidget");
  } finally {
    scope.define = before;
  }
  if (!factory) throw new Error("anywidget did not define itself");
  return factory(base);
}

const anywidget = loadAnywidget();

type LoggedMessage =
  | { method: "custom"; content: Record<string, unknown> }
  | { method: "update"; state: Record<string, unknown> };

/** A fake of the kernel's end of the connection. */
class LoopComm {
  readonly target_name = "jupyter.widget";
  private onMessage: ((message: unknown) => void) | undefined;

  constructor(
    readonly comm_id: string,
    private readonly log: (message: LoggedMessage) => void,
  ) {}

  on_open(): void {}
  on_close(): void {}
  on_msg(callback: (message: unknown) => void): void {
    this.onMessage = callback;
  }
  open(): string {
    return "";
  }
  close(): string {
    return "";
  }
  send(data: unknown, callbacks?: base.ICallbacks) {
    this.log(data as LoggedMessage);
    // The kernel reports idle after each message; without it the model delays the next message.
    queueMicrotask(() =>
      callbacks?.iopub?.status?.({ content: { execution_state: "idle" } } as never),
    );
    return "";
  }
  receive(data: Record<string, unknown>, buffers: DataView[]): void {
    this.onMessage?.({ content: { comm_id: this.comm_id, data }, buffers });
  }
}

export interface Live {
  readonly model: base.WidgetModel;
  /** Show one view of the model in the document. */
  show(): Promise<{ readonly el: HTMLElement; remove(): void }>;
  /** A custom message from the kernel. */
  receive(content: unknown, buffers?: DataView[]): void;
}

/** A page with widgets; `sent` and `saved` collect their messages to the kernel. */
export class WidgetPage extends ManagerBase {
  /** Custom messages. */
  readonly sent: { content: Record<string, unknown> }[] = [];
  /** Changed traits, by `save_changes`. */
  readonly saved: { model: string; state: Record<string, unknown> }[] = [];
  private readonly comms = new Map<string, LoopComm>();

  protected override async loadClass(className: string, moduleName: string): Promise<never> {
    const source = moduleName === "anywidget" ? await anywidget : base;
    return (source as Record<string, unknown>)[className] as never;
  }

  protected override async _create_comm(_target: string, id: string): Promise<never> {
    const comm = new LoopComm(id, (message) => {
      if (message.method === "custom") this.sent.push({ content: message.content });
      else this.saved.push({ model: id, state: message.state });
    });
    this.comms.set(id, comm);
    return comm as never;
  }

  protected override async _get_comm_info(): Promise<Record<string, never>> {
    return {};
  }

  /** Make a model from a module's source (`import source from "…?raw"`) and its traits. */
  async make(id: string, esm: string, state: Record<string, unknown>): Promise<Live> {
    const classes = {
      model_name: "AnyModel",
      model_module: "anywidget",
      model_module_version: "0.11.0",
      view_name: "AnyView",
      view_module: "anywidget",
      view_module_version: "0.11.0",
    };
    const traits = Object.entries(classes).map(([name, value]) => [`_${name}`, value]);
    const model = await this.new_widget(
      { ...classes, model_id: id },
      { ...Object.fromEntries(traits), _anywidget_id: `test.${id}`, _esm: esm, ...state },
    );
    return {
      model,
      show: async () => {
        const view = await this.create_view(model);
        document.body.append(view.el);
        return { el: view.el, remove: () => void view.remove() };
      },
      receive: (content, buffers = []) =>
        this.comms.get(id)?.receive({ method: "custom", content }, buffers),
    };
  }
}
