import { expect, test } from "vitest";
import { sceneOf } from "../../test/recorded";
import { RowsView, stageGeometry } from "./rows_view";

/** Return the rows of an expanded rank whose thread lanes are empty in the view. */
function rowsIn(height: number, keepEmptyLanes = false): RowsView {
  const scene = sceneOf(1);
  const geometry = stageGeometry(scene, 1200, height, 1);
  const view = new RowsView(scene, geometry);
  view.state = { ...view.state, open: new Set([0]), keepEmptyLanes };
  view.update(scene, geometry);
  const threads = scene.ranks[0]!.tracks.filter(({ role }) => role === "thread");
  const isEmpty = (lane: number): boolean =>
    threads.some(({ lane0, lanes }) => lane >= lane0 && lane < lane0 + lanes);
  view.updateEmptyLanes(isEmpty, null);
  return view;
}

const thinLanes = ({ layout }: RowsView): number =>
  layout.rows.reduce((sum, row) => sum + row.thinLanes, 0);
const blank = ({ layout }: RowsView, height: number): number =>
  stageGeometry(sceneOf(1), 1200, height, 1).rowsHeight - layout.height;

test("empty lanes keep their height if all rows fit", () => {
  expect(thinLanes(rowsIn(900))).toBe(0);
});

test("only as many empty lanes are thin as necessary, and none above one of full height", () => {
  const height = 900 - blank(rowsIn(900), 900) - 50;
  const view = rowsIn(height);
  // A thread lane is 17 px tall and a thin one 3 px, so four of them save 50 px.
  expect(thinLanes(view)).toBe(4);
  expect(blank(view, height)).toBeGreaterThanOrEqual(0);
  expect(blank(view, height)).toBeLessThan(14);
  const isThin = view.layout.rows.flatMap(({ track, bands }) =>
    track?.role === "thread" ? bands().map(({ height }) => height === 2) : [],
  );
  expect(isThin.indexOf(true)).toBe(isThin.length - 4);
});

test("all empty lanes are thin if the rows scroll nevertheless, and none if the user keeps them", () => {
  const lanes = sceneOf(1).ranks[0]!.tracks.filter(({ role }) => role === "thread");
  const count = lanes.reduce((sum, track) => sum + track.lanes, 0);
  expect(thinLanes(rowsIn(150))).toBe(count);
  expect(thinLanes(rowsIn(150, true))).toBe(0);
});
