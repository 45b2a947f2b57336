/** The frame of the call tree: operators by call path, as bars of a flame graph. */

import { sum } from "../expressions/numbers";
import { noteFor } from "../facts/notes";
import { getOrMake } from "../protocol/maps";
import type { PanelFrame } from "../protocol/source";
import type { NameTable } from "./columns";
import { buildColumns, makeFrame } from "./frames";
import { operatorSums, operatorTree, callPaths } from "./operators";
import { compareCodePoints } from "./panel_names";
import { forEachInWindow, type RankSelection, withoutMask } from "./panel_rank";

/** Bars narrower than this share of the chart's width are left out. */
const MIN_SHARE = 0.002;

type Measure = "host" | "device";

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

const childTime = ({ children }: CallNode, measure: Measure): number =>
  sum(Array.from(children.values(), (node) => node[measure]));

/** Add a rank's call paths with the operators and device work of the window, selected or not. */
function addRank(selection: RankSelection, root: CallNode): void {
  const paths = callPaths(selection);
  if (paths === null) return;
  const tree = operatorTree(selection);
  const { work } = selection.analysis;
  const nodes: CallNode[] = [];
  paths.parent.forEach((above, path) => {
    const { children } = above < 0 ? root : nodes[above]!;
    const name = tree.names[paths.name[path]!]!;
    nodes.push(getOrMake(children, name, () => makeCallNode(name)));
  });
  forEachInWindow(tree, selection, (operator, start, end) => {
    const node = nodes[paths.pathOfOperator[operator]!]!;
    node.count += 1;
    node.host += end - start;
  });
  forEachInWindow(work, selection, (index, start, end) => {
    const operator = tree.ofWork[index]!;
    if (operator < 0 || work.stream[index]! < 0) return;
    for (let path = paths.pathOfOperator[operator]!; path >= 0; path = paths.parent[path]!) {
      nodes[path]!.device += end - start;
    }
  });
}

export function callTreeFrame(
  selections: readonly RankSelection[],
  names: NameTable,
  measure: Measure,
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
  const { bars, leftOut } = placeBars(root, names, measure);
  const columns = buildColumns(bars, {
    depth: ({ depth }) => depth,
    name: ({ node }) => names.full(node.name),
    short: ({ node }) => names.short(node.name),
    left_ns: ({ left }) => left,
    right_ns: ({ node, left }) => left + node[measure],
    own_ns: ({ node }) => Math.max(node[measure] - childTime(node, measure), 0),
    count: ({ node }) => node.count,
    host_ns: ({ node }) => node.host,
    device_ns: ({ node }) => node.device,
  });
  const note = noteFor(root.children.size > 0 ? "no_operators_selected" : "no_operators");
  const outside = measure === "device" && { outside: outsideTime / Math.max(workTime, 1) };
  return makeFrame(columns, { left_out: leftOut, ...outside }, bars.length > 0 ? "" : note);
}

/** Return bars for the paths below `root`, and how many were left out as too narrow. */
function placeBars(root: CallNode, names: NameTable, measure: Measure) {
  const compare = (a: CallNode, b: CallNode): number =>
    b[measure] - a[measure] || compareCodePoints(names.full(a.name), names.full(b.name));
  const minTime = childTime(root, measure) * MIN_SHARE;
  let leftOut = 0;
  // Breadth first, so each bar appends its children. `left` is the time at which the bar begins.
  const bars = [{ node: root, depth: -1, left: 0 }];
  for (const { node, depth, left } of bars) {
    let childLeft = left;
    const children = [...node.children.values()].filter((child) => child[measure] > 0);
    for (const child of children.sort(compare)) {
      if (child[measure] < minTime) {
        leftOut += 1;
        continue;
      }
      bars.push({ node: child, depth: depth + 1, left: childLeft });
      childLeft += child[measure];
    }
  }
  return { bars: bars.slice(1), leftOut };
}
