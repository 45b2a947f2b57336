/** The part of BokehJS that charts use, as types. */

export type Column = readonly unknown[] | Float64Array;

interface BokehSource {
  data: Record<string, Column>;
  selected: { indices: number[] };
}

interface Range {
  setv(values: { start: number; end: number }): void;
}

interface Figure {
  setv(values: Record<string, unknown>): void;
}

interface Layer {
  to_blob(): Promise<Blob>;
}

interface View {
  readonly model: Figure & { document: Doc };
  export(type: "png" | "svg", hidpi: boolean): Layer;
  remove(): void;
}

interface Doc {
  get_model_by_name(name: string): unknown;
  clear(): void;
}

interface Views {
  readonly roots: View[];
}

export interface Bokeh {
  readonly version: string;
  readonly logger?: { set_level(level: string): void };
  readonly documents: Doc[];
  readonly index?: { delete(view: View): void };
  readonly embed: {
    embed_item(item: unknown, target: HTMLElement): Promise<Views>;
    index?: { delete(view: View): void };
  };
}

/** One embedded figure. */
export class Sheet {
  private readonly known = new Map<string, unknown>();

  private constructor(
    private readonly bokeh: Bokeh,
    private readonly view: View,
  ) {}

  /** Embeds the item of a figure; `el` is empty again after `destroy`. */
  static async embed(bokeh: Bokeh, item: unknown, el: HTMLElement): Promise<Sheet> {
    // It would tell of each figure that it is drawn.
    bokeh.logger?.set_level("warn");
    const views = await bokeh.embed.embed_item(item, el);
    const view = views.roots[0];
    if (view === undefined) throw new Error("BokehJS drew no figure");
    return new Sheet(bokeh, view);
  }

  /** The model of this name; null where the figure has none. */
  model(name: string): unknown {
    if (!this.known.has(name)) {
      this.known.set(name, this.view.model.document.get_model_by_name(name));
    }
    return this.known.get(name) ?? null;
  }

  source(name: string): BokehSource | null {
    return this.model(name) as BokehSource | null;
  }

  fill(name: string, data: Record<string, Column>): void {
    const source = this.source(name);
    if (source !== null) source.data = data;
  }

  range(name: "x" | "y", start: number, end: number): void {
    (this.model(name) as Range).setv({ start, end });
  }

  size(width: number, height: number): void {
    this.view.model.setv({ width, height });
  }

  blob(type: "png" | "svg"): Promise<Blob> {
    return this.view.export(type, true).to_blob();
  }

  destroy(): void {
    const doc = this.view.model.document;
    this.bokeh.index?.delete(this.view);
    this.bokeh.embed.index?.delete(this.view);
    this.view.remove();
    doc.clear();
    // BokehJS remembers each document for good.
    const at = this.bokeh.documents.indexOf(doc);
    if (at >= 0) this.bokeh.documents.splice(at, 1);
    this.known.clear();
  }
}
