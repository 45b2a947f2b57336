/** The frame of call trees: operators by path as bars of a flame graph. */

import { noteFor } from "../facts/notes";
import type { PanelFrame } from "../protocol/source";
import type { Names } from "./columns";
import { columnsOf, frameOf } from "./frames";
import { operatorsOf, pathsOf } from "./operators";
import { byCodePoints } from "./panel_names";
import { around, overlaps, type Part, unmasked } from "./panel_rank";

/** Paths with less of the chart's width are left out. */
const LEAST_SHARE = 0.002;

interface Node {
  name: number;
  count: number;
  host: number;
  device: number;
  children: Map<number, Node>;
}

function nodeOf(name: number): Node {
  return { name, count: 0, host: 0, device: 0, children: new Map() };
}

/** Add the paths of a rank's operators in the window of a part, chosen or not. */
function addRank(part: Part, root: Node): void {
  const paths = pathsOf(part);
  if (paths === null) return;
  const tree = operatorsOf(part);
  const { work } = part.rank;
  const nodes: Node[] = [];
  paths.parent.forEach((above, path) => {
    const { children } = above < 0 ? root : nodes[above]!;
    const name = tree.names[paths.name[path]!]!;
    if (!children.has(name)) children.set(name, nodeOf(name));
    nodes.push(children.get(name)!);
  });
  const { low, high } = part;
  let [first, last] = around(tree, part);
  for (let at = first; at < last; at += 1) {
    const [start, end] = [tree.start[at]!, tree.end[at]!];
    if (!overlaps(start, end, low)) continue;
    const node = nodes[paths.of[at]!]!;
    node.count += 1;
    node.host += Math.min(end, high) - Math.max(start, low);
  }
  [first, last] = around(work, part);
  for (let at = first; at < last; at += 1) {
    const [start, end, operator] = [work.start[at]!, work.end[at]!, tree.ofWork[at]!];
    if (operator < 0 || work.stream[at]! < 0 || !overlaps(start, end, low)) continue;
    const time = Math.min(end, high) - Math.max(start, low);
    for (let path = paths.of[operator]!; path >= 0; path = paths.parent[path]!) {
      nodes[path]!.device += time;
    }
  }
}

export function callTree(
  parts: readonly Part[],
  names: Names,
  measure: "host" | "device",
): PanelFrame {
  const root = nodeOf(-1);
  for (const part of parts) addRank(unmasked(part), root);
  const inner = ({ children }: Node): number =>
    [...children.values()].reduce((sum, one) => sum + one[measure], 0);
  const total = inner(root);
  const rows: { node: Node; depth: number; left: number }[] = [];
  let leftOut = 0;
  const below = [{ node: root, depth: 0, left: 0 }];
  for (const { node, depth, left: from } of below) {
    let left = from;
    const own = [...node.children.values()].filter((one) => one[measure] > 0);
    own.sort(
      (a, b) => b[measure] - a[measure] || byCodePoints(names.full(a.name), names.full(b.name)),
    );
    for (const child of own) {
      if (child[measure] < total * LEAST_SHARE) {
        leftOut += 1;
        continue;
      }
      rows.push({ node: child, depth, left });
      below.push({ node: child, depth: depth + 1, left });
      left += child[measure];
    }
  }
  const columns = columnsOf(rows, {
    depth: ({ depth }) => depth,
    name: ({ node }) => names.full(node.name),
    short: ({ node }) => names.short(node.name),
    left_ns: ({ left }) => left,
    right_ns: ({ node, left }) => left + node[measure],
    own_ns: ({ node }) => Math.max(node[measure] - inner(node), 0),
    count: ({ node }) => node.count,
    host_ns: ({ node }) => node.host,
    device_ns: ({ node }) => node.device,
  });
  const note = noteFor(root.children.size > 0 ? "no_operators_selected" : "no_operators");
  return frameOf(columns, { left_out: leftOut }, rows.length > 0 ? "" : note);
}
