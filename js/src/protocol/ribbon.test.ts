import { expect, test } from "vitest";
import { plain } from "../../test/plain";
import { packReply } from "../engine/columns";
import { rampIndex, delayStrength } from "../stage/lanes";
import { arrivalText } from "../timeline/text";
import { arrivalAt, decodeRibbon, jobArrivalAt, timeOfBin } from "./ribbon";

/** Ten bins of 100 ns: rank 0 takes part in calls 1 and 2, and rank 5 is late for both. */
function ribbon() {
  const reply = { names: ["AllReduce", "Broadcast"], of: 2, most: 40, job_most: 40 };
  const columns = {
    rank: Int32Array.of(0, 0, 5, 5),
    bin: Uint32Array.of(1, 6, 3, 8),
    late: Float64Array.of(0, 0, 40, 10),
    call: Uint32Array.of(1, 2, 1, 2),
    name: Uint32Array.of(0, 1, 0, 1),
    id: Uint32Array.of(7, 8, 17, 18),
    job_bin: Uint32Array.of(3, 8),
    job_time: Float64Array.of(30, 80),
    job_wait: Float64Array.of(40, 10),
    job_rank: Int32Array.of(5, -1),
    job_call: Uint32Array.of(1, 2),
    job_name: Uint32Array.of(0, 1),
    job_id: Uint32Array.of(17, 18),
  };
  return decodeRibbon(packReply(reply, columns), { start: 0, end: 100, bins: 10 });
}

test("marks are found by rank and time, the nearest within reach", () => {
  const found = ribbon();
  expect(timeOfBin(found, 3)).toBe(35);
  const first = { name: "AllReduce", call: 1, of: 2, rank: 5, id: 17, ns: 40, ofJob: false };
  expect(arrivalAt(found, 5, 33, 5)).toEqual(first);
  expect(arrivalAt(found, 5, 84, 5)?.name).toBe("Broadcast");
  expect(arrivalAt(found, 5, 60, 5)).toBeNull();
  expect(arrivalAt(found, 0, 35, 5)).toBeNull();
  expect(arrivalAt(found, 3, 35, 100)).toBeNull();
  expect(arrivalAt(found, 5, 55, 100)?.call).toBe(1);
});

test("the job's marks name the last rank, or report several", () => {
  const found = ribbon();
  expect(jobArrivalAt(found, 36, 3)).toMatchObject({ rank: 5, id: 17, ns: 40, ofJob: true });
  expect(jobArrivalAt(found, 85, 3)).toMatchObject({ rank: -1, call: 2 });
  expect(jobArrivalAt(found, 50, 3)).toBeNull();
});

test("a mark shows the delay and the call; the job's mark shows the last rank and its cost", () => {
  const found = ribbon();
  const said = (lines: [string, string]) => lines.map(plain);
  expect(said(arrivalText(arrivalAt(found, 5, 35, 5)!))).toEqual([
    "40 ns after the median rank",
    "rank 5, AllReduce 1 of 2",
  ]);
  expect(arrivalText(arrivalAt(found, 0, 15, 5)!)[0]).toBe("no later than the median rank");
  expect(said(arrivalText(jobArrivalAt(found, 35, 5)!))).toEqual([
    "rank 5 comes last, AllReduce 1 of 2",
    "the others wait 40 ns on average",
  ]);
  expect(arrivalText(jobArrivalAt(found, 85, 5)!)[0]).toContain(
    "several ranks come last at the same time",
  );
});

test("only on-time marks look like the lane, and the latest of the job has full strength", () => {
  expect(rampIndex(delayStrength(0, 40), 49)).toBe(0);
  expect(rampIndex(delayStrength(1e-6, 40), 49)).toBe(1);
  expect(rampIndex(delayStrength(40, 40), 49)).toBe(48);
  expect(rampIndex(delayStrength(10, 40), 49)).toBe(24);
  expect(delayStrength(5, 0)).toBe(0);
});

test("columns of different lengths are rejected", () => {
  expect(() => decodeRibbon(packReply({}, {}), { start: 0, end: 1, bins: 1 })).toThrow("column");
});
