import { expect, test } from "vitest";
import { pack, unpack } from "./wire";

/** Written by hand: three parts of 10, 3 and 0 bytes at 16, 32 and 40; also in test_wire.py. */
const FRAME = [
  ...[3, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
  ...Array.from('{"type":1}', (letter) => letter.charCodeAt(0)),
  ...[0, 0, 0, 0, 0, 0, 7, 8, 9, 0, 0, 0, 0, 0],
];

test("a frame is as in the protocol", () => {
  const bytes = new Uint8Array([0, 7, 8, 9, 0]).subarray(1, 4);
  const message = { type: 1 } as never;
  expect([...new Uint8Array(pack(message, [bytes, new ArrayBuffer(0)]))]).toEqual(FRAME);
});

test("parts are views of the frame at multiples of 8", () => {
  const { message, buffers } = unpack(new Uint8Array(FRAME).buffer);
  expect(message).toEqual({ type: 1 });
  expect(buffers.map(({ byteOffset, byteLength }) => [byteOffset, byteLength])).toEqual([
    [32, 3],
    [40, 0],
  ]);
  expect(buffers[0]!.getUint8(2)).toBe(9);
});

test("names of a trace pass as text", () => {
  const message = { type: "x", name: "</script>\u2028é😀" };
  expect(unpack(pack(message)).message).toEqual(message);
});
