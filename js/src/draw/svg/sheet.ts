/** Collects shapes and text as SVG, the first of them lowest. */

/** So many shapes of other colours may lie between two that become one path. */
const REACH = 12;

interface Skyline {
  left: number;
  right: number;
  base: number;
  top: number;
  data: string;
}

/** Boxes of one colour that nothing drawn between them lies over. */
interface Batch {
  fill: string;
  data: string[];
  right: number;
  top: number;
  bottom: number;
  open: Skyline | null;
}

export interface Paint {
  colour: string;
  alpha: number;
}

/** A CSS colour as what every SVG reader knows: six digits, and how far it covers. */
export function paintOf(css: string): Paint {
  const channels = /^rgb\((\d+) (\d+) (\d+)\)$/.exec(css);
  if (channels !== null) {
    const digits = channels.slice(1).map((part) => Number(part).toString(16).padStart(2, "0"));
    return { colour: `#${digits.join("")}`, alpha: 1 };
  }
  if (/^#[0-9a-f]{8}$/i.test(css)) {
    return { colour: css.slice(0, 7), alpha: Number.parseInt(css.slice(7), 16) / 255 };
  }
  return { colour: css, alpha: 1 };
}

/** A coordinate with two decimals, without what says nothing. */
export function num(value: number): string {
  return String(Math.round(value * 100) / 100 || 0);
}

/** As XML may hold it: most control characters and halves of surrogate pairs cannot be. */
export function escaped(text: string): string {
  return (
    text
      // eslint-disable-next-line no-control-regex
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Cs}/gu, "\ufffd")
      .replace(/&/g, "&amp;")
      .replace(/</g, "&lt;")
      .replace(/>/g, "&gt;")
      .replace(/"/g, "&quot;")
  );
}

/** Attributes of a fill or a stroke. */
export function attribute(name: "fill" | "stroke", css: string, alpha: number): string {
  const paint = paintOf(css);
  const covers = paint.alpha * alpha;
  const opacity = covers >= 0.999 ? "" : ` ${name}-opacity="${num(covers)}"`;
  return `${name}="${paint.colour}"${opacity}`;
}

export class Sheet {
  private readonly parts: string[] = [];
  private readonly defs = new Map<string, string>();
  private batches: Batch[] = [];

  /** Markup after all that was drawn before. */
  add(markup: string): void {
    this.flush();
    this.parts.push(markup);
  }

  /** Something to be named; the same body has one name. */
  define(body: (id: string) => string, key: string): string {
    const id = `hta-${key}`;
    if (!this.defs.has(id)) this.defs.set(id, body(id));
    return id;
  }

  /** A filled rectangle; `fill` is the attribute. Neighbours on one base become one shape. */
  box(x0: number, y0: number, x1: number, y1: number, fill: string): void {
    if (!(x1 > x0) || !(y1 > y0)) return;
    const batch = this.batchFor(x0, y0, y1, fill);
    batch.right = Math.max(batch.right, x1);
    batch.top = Math.min(batch.top, y0);
    batch.bottom = Math.max(batch.bottom, y1);
    const { open } = batch;
    if (open !== null && open.right === x0 && open.base === y1) {
      if (open.top !== y0) open.data += `H${num(open.right)}V${num(y0)}`;
      open.top = y0;
      open.right = x1;
      return;
    }
    close(batch);
    batch.open = { left: x0, right: x1, base: y1, top: y0, data: start(x0, y1, y0) };
  }

  svg(width: number, height: number, title: string): string {
    this.flush();
    const size = `width="${num(width)}" height="${num(height)}"`;
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${num(width)} ${num(height)}" role="img">`,
      `<title>${escaped(title)}</title>`,
      `<defs>${[...this.defs.values()].join("")}</defs>`,
      ...this.parts,
      "</svg>\n",
    ].join("\n");
  }

  /** The batch of a colour, if all that was drawn since lies left of the new shape or beside it. */
  private batchFor(x0: number, y0: number, y1: number, fill: string): Batch {
    const { batches } = this;
    for (let at = batches.length - 1; at >= Math.max(0, batches.length - REACH); at -= 1) {
      const batch = batches[at]!;
      if (batch.fill === fill) return batch;
      if (x0 < batch.right && y0 < batch.bottom && y1 > batch.top) break;
    }
    const made = { fill, data: [], right: x0, top: y0, bottom: y1, open: null };
    batches.push(made);
    return made;
  }

  private flush(): void {
    for (const batch of this.batches) {
      close(batch);
      this.parts.push(`<path d="${batch.data.join("")}" ${batch.fill}/>`);
    }
    this.batches = [];
  }
}

function start(x: number, base: number, top: number): string {
  return `M${num(x)} ${num(base)}V${num(top)}`;
}

function close(batch: Batch): void {
  const { open } = batch;
  if (open === null) return;
  batch.data.push(`${open.data}H${num(open.right)}V${num(open.base)}z`);
  batch.open = null;
}
