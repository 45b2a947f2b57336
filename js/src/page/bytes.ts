/** From the text of a page to bytes: base64 and gzip, with what browsers bring along. */

/** What newer browsers have and the DOM's types do not know yet. */
interface Base64Reader {
  fromBase64?(text: string): Uint8Array;
}

export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as Base64Reader).fromBase64;
  if (native !== undefined) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function canGunzip(): boolean {
  return typeof DecompressionStream === "function";
}

export async function gunzip(bytes: Uint8Array): Promise<Uint8Array> {
  const { body } = new Response(bytes as Uint8Array<ArrayBuffer>);
  const stream = body!.pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Named blocks of a page, each a gzip stream; null where there is no such block. */
export interface Blocks {
  /** As base64 text. */
  text(name: string): string | null;
  /** As bytes; only where blocks are held so. */
  bytes?(name: string): Uint8Array | null;
}

export async function readBlock(blocks: Blocks, name: string): Promise<Uint8Array> {
  const bytes = blocks.bytes?.(name) ?? null;
  const text = bytes === null ? blocks.text(name) : null;
  if (bytes === null && text === null) {
    throw new Error(`This page has lost its part "${name}". Save it again.`);
  }
  try {
    return await gunzip(bytes ?? fromBase64(text!.trim()));
  } catch {
    throw new Error(`The part "${name}" of this page is damaged. Save it again.`);
  }
}
