/** Frames as in `hta_widgets/host/session.py`: JSON and buffers, each aligned to 8 bytes. */

export type BinaryData = ArrayBuffer | ArrayBufferView;

export interface WireMessage {
  type: string;
  [field: string]: unknown;
}

const ALIGN = 8;
const LENGTH_BYTES = 4;

const alignUp = (offset: number): number => Math.ceil(offset / ALIGN) * ALIGN;

function asBytes(data: BinaryData): Uint8Array {
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

export function pack(message: WireMessage, buffers: readonly BinaryData[] = []): ArrayBuffer {
  const parts = [new TextEncoder().encode(JSON.stringify(message)), ...buffers.map(asBytes)];
  const head = LENGTH_BYTES * (1 + parts.length);
  const size = parts.reduce((offset, part) => alignUp(offset) + part.length, head);
  const frame = new Uint8Array(size);
  const lengths = new DataView(frame.buffer);
  lengths.setUint32(0, parts.length, true);
  let offset = head;
  parts.forEach((part, place) => {
    lengths.setUint32(LENGTH_BYTES * (1 + place), part.length, true);
    offset = alignUp(offset);
    frame.set(part, offset);
    offset += part.length;
  });
  return frame.buffer;
}

export function unpack(frame: ArrayBuffer): { message: WireMessage; buffers: DataView[] } {
  const lengths = new DataView(frame);
  const count = lengths.getUint32(0, true);
  const parts: DataView[] = [];
  let offset = LENGTH_BYTES * (1 + count);
  for (let place = 0; place < count; place += 1) {
    const length = lengths.getUint32(LENGTH_BYTES * (1 + place), true);
    offset = alignUp(offset);
    parts.push(new DataView(frame, offset, length));
    offset += length;
  }
  const [text, ...buffers] = parts;
  return { message: JSON.parse(new TextDecoder().decode(text)) as WireMessage, buffers };
}
