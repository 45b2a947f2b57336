import { describe, expect, test } from "vitest";
import type { Kind } from "../protocol/source";
import { THEMES } from "../ui/theme";
import { contrast, fnv1a32, mix, pack, kindPaints, rgb, shadeIndex } from "./paints";

const KINDS: Kind[] = ["compute", "communication", "memory", "sync", "cpu", "annotation", "other"];

test("published values of FNV-1a", () => {
  expect(fnv1a32("")).toBe(0x811c9dc5);
  expect(fnv1a32("a")).toBe(0xe40c292c);
  expect(fnv1a32("foobar")).toBe(0xbf9cf968);
});

test("shades hash the name's UTF-8", () => {
  // UTF-8 encodes ö as 0xc3 0xb6; a hash of UTF-16 would differ.
  let hash = 0x811c9dc5;
  for (const byte of [0xc3, 0xb6]) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  expect(fnv1a32("ö")).toBe(hash);
  expect(shadeIndex(fnv1a32("ö"))).toBe(hash % 3);
});

test("pixels are little-endian RGBA", () => {
  expect(pack(rgb("#1f77c0"))).toBe(0xffc0771f);
  expect(mix(rgb("#ffffff"), rgb("#000000"), 0.5)).toEqual({ r: 128, g: 128, b: 128 });
});

describe.each(["light", "dark"] as const)("%s theme", (name) => {
  const theme = THEMES[name];

  test("text on every solid shade has a contrast of at least 4.5", () => {
    const paints = kindPaints(theme, KINDS, new Set());
    for (const [code, kind] of KINDS.entries()) {
      for (let shade = 0; shade < 3; shade += 1) {
        const ground = rgb(theme.nameShades[kind][shade]!);
        expect(contrast(rgb(paints.textOn[code * 3 + shade]!), ground)).toBeGreaterThan(4.5);
      }
    }
  });

  test("the kinds differ clearly from the lane", () => {
    for (const kind of KINDS) {
      expect(contrast(rgb(theme.kind[kind]), rgb(theme.lane))).toBeGreaterThan(3);
    }
  });

  test("a dimmed kind is paler, others are unchanged", () => {
    const all = kindPaints(theme, KINDS, new Set());
    const dimmed = kindPaints(theme, KINDS, new Set<Kind>(["compute"]));
    expect(dimmed.solid[0]).not.toBe(all.solid[0]);
    expect(dimmed.solid[3]).toBe(all.solid[3]);
  });
});
