/** Which part of a text fits a mark. A label is drawn whole, cut with "…" or not at all. */

const ELLIPSIS = "…";
/** A cut label must keep this many characters, else it says nothing. */
const FEWEST = 4;
/** Marks narrower than this carry no label. */
export const LABEL_FROM_PX = 26;
const CACHED_TEXTS = 20_000;

interface Measured {
  /** Width of the first n characters, for n from 0 to the length. */
  readonly prefix: Float32Array;
  readonly cut: (string | undefined)[];
}

/**
 * Measures by summing the advances of single characters, so that fitting a label costs a binary
 * search and no call into the canvas. Kerning is left out, which errs by less than a pixel.
 */
export class TextFitter {
  private readonly advances = new Map<string, number>();
  private readonly texts = new Map<string, Measured>();

  constructor(private readonly measure: (text: string) => number) {}

  width(text: string): number {
    const { prefix } = this.measured(text);
    return prefix[prefix.length - 1]!;
  }

  /** The longest form of `text` that is at most `room` wide; "" where too little fits. */
  fit(text: string, room: number): string {
    const measured = this.measured(text);
    const { prefix, cut } = measured;
    const length = prefix.length - 1;
    if (prefix[length]! <= room) return text;
    const left = room - this.advance(ELLIPSIS);
    let low = 0;
    let high = length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (prefix[middle]! <= left) low = middle;
      else high = middle - 1;
    }
    if (low < FEWEST) return "";
    let label = cut[low];
    if (label === undefined) {
      label = Array.from(text).slice(0, low).join("").trimEnd() + ELLIPSIS;
      cut[low] = label;
    }
    return label;
  }

  private advance(character: string): number {
    let width = this.advances.get(character);
    if (width === undefined) {
      width = this.measure(character);
      this.advances.set(character, width);
    }
    return width;
  }

  private measured(text: string): Measured {
    const known = this.texts.get(text);
    if (known !== undefined) return known;
    const characters = Array.from(text);
    const prefix = new Float32Array(characters.length + 1);
    for (let i = 0; i < characters.length; i += 1) {
      prefix[i + 1] = prefix[i]! + this.advance(characters[i]!);
    }
    const measured: Measured = { prefix, cut: [] };
    if (this.texts.size >= CACHED_TEXTS) this.texts.clear();
    this.texts.set(text, measured);
    return measured;
  }
}
