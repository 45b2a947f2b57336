/** The frame of call trees: operators by path as bars of a flame graph. */

import { noteFor } from "../facts/notes";
import type { PanelFrame } from "../protocol/source";
import type { NameTable } from "./columns";
import { buildColumns, makeFrame } from "./frames";
import { operatorSums, operatorTree, callPaths } from "./operators";
import { compareCodePoints } from "./panel_names";
import { candidateRange, overlaps, type RankSelection, withoutMask } from "./panel_rank";

/** Paths with less of the chart's width are left out. */
const MIN_SHARE = 0.002;

interface CallNode {
  name: number;
  count: number;
  host: number;
  device: number;
  children: Map<number, CallNode>;
}

function makeCallNode(name: number): CallNode {
  return { name, count: 0, host: 0, device: 0, children: new Map() };
}

/** Add the paths of a rank's operators in a window, chosen or not. */
function addRank(selection: RankSelection, root: CallNode): void {
  const paths = callPaths(selection);
  if (paths === null) return;
  const tree = operatorTree(selection);
  const { work } = selection.analysis;
  const nodes: CallNode[] = [];
  paths.parent.forEach((above, path) => {
    const { children } = above < 0 ? root : nodes[above]!;
    const name = tree.names[paths.name[path]!]!;
    if (!children.has(name)) children.set(name, makeCallNode(name));
    nodes.push(children.get(name)!);
  });
  const { low, high } = selection;
  let [first, last] = candidateRange(tree, selection);
  for (let operator = first; operator < last; operator += 1) {
    const [start, end] = [tree.start[operator]!, tree.end[operator]!];
    if (!overlaps(start, end, low)) continue;
    const node = nodes[paths.pathOfOperator[operator]!]!;
    node.count += 1;
    node.host += Math.min(end, high) - Math.max(start, low);
  }
  [first, last] = candidateRange(work, selection);
  for (let node = first; node < last; node += 1) {
    const [start, end, operator] = [work.start[node]!, work.end[node]!, tree.ofWork[node]!];
    if (operator < 0 || work.stream[node]! < 0 || !overlaps(start, end, low)) continue;
    const time = Math.min(end, high) - Math.max(start, low);
    for (let path = paths.pathOfOperator[operator]!; path >= 0; path = paths.parent[path]!) {
      nodes[path]!.device += time;
    }
  }
}

export function callTreeFrame(
  selections: readonly RankSelection[],
  names: NameTable,
  measure: "host" | "device",
): PanelFrame {
  const root = makeCallNode(-1);
  let [workTime, outsideTime] = [0, 0];
  for (const selection of selections) {
    const inWindow = withoutMask(selection);
    addRank(inWindow, root);
    const sums = operatorSums(inWindow);
    workTime += sums.workTime;
    outsideTime += sums.outsideTime;
  }
  const childTime = ({ children }: CallNode): number =>
    [...children.values()].reduce((sum, node) => sum + node[measure], 0);
  const total = childTime(root);
  const rows: { node: CallNode; depth: number; left: number }[] = [];
  let leftOut = 0;
  const below = [{ node: root, depth: 0, left: 0 }];
  for (const { node, depth, left: from } of below) {
    let left = from;
    const children = [...node.children.values()].filter((node) => node[measure] > 0);
    children.sort(
      (a, b) =>
        b[measure] - a[measure] || compareCodePoints(names.full(a.name), names.full(b.name)),
    );
    for (const child of children) {
      if (child[measure] < total * MIN_SHARE) {
        leftOut += 1;
        continue;
      }
      rows.push({ node: child, depth, left });
      below.push({ node: child, depth: depth + 1, left });
      left += child[measure];
    }
  }
  const columns = buildColumns(rows, {
    depth: ({ depth }) => depth,
    name: ({ node }) => names.full(node.name),
    short: ({ node }) => names.short(node.name),
    left_ns: ({ left }) => left,
    right_ns: ({ node, left }) => left + node[measure],
    own_ns: ({ node }) => Math.max(node[measure] - childTime(node), 0),
    count: ({ node }) => node.count,
    host_ns: ({ node }) => node.host,
    device_ns: ({ node }) => node.device,
  });
  const note = noteFor(root.children.size > 0 ? "no_operators_selected" : "no_operators");
  const attrs =
    measure === "host"
      ? { left_out: leftOut }
      : { left_out: leftOut, outside: outsideTime / Math.max(workTime, 1) };
  return makeFrame(columns, attrs, rows.length > 0 ? "" : note);
}
