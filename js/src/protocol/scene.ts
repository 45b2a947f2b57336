/** Check a scene, and find the rank and track of a lane. */

import type { Scene, SceneRank, SceneTrack, Slice, TableName } from "./source";

export function readScene(value: unknown): Scene {
  if (value === null || typeof value !== "object") throw new Error("The widget holds no scene.");
  const scene = value as Partial<Scene>;
  if (scene.version !== 1) {
    throw new Error(
      `The kernel's hta_widgets and this page differ: the scene has version ${String(scene.version)}, ` +
        "this page reads version 1. Restart the kernel and reload the page.",
    );
  }
  if (!Array.isArray(scene.ranks) || !Array.isArray(scene.range)) {
    throw new Error("The scene has no ranks or no range.");
  }
  return scene as Scene;
}

/** Return whether a rank has device rows. */
export function hasDevice({ summary }: Pick<SceneRank, "summary">): boolean {
  return summary.some(({ role }) => role !== "cpu");
}

/** Return the word for the ranks' devices, such as `NPU`. */
export function deviceOf({ ranks }: Pick<Scene, "ranks">): string {
  return ranks.find(({ device }) => device !== undefined)?.device ?? "GPU";
}

/** Replace the device word's placeholders in a text. */
export function fillDeviceWord(text: string, device: string): string {
  return text.replaceAll("{device_word}", device);
}

/** Return whether any collectives are matched, in which case ranks may be late. */
export function hasLateness({ ranks }: Scene): boolean {
  return ranks.some(({ summary }) => summary.some(({ wait }) => wait !== undefined));
}

// A lane's rank and track.

interface LaneLocation {
  rank: SceneRank;
  /** Null for a summary lane. */
  track: SceneTrack | null;
  summary: SceneRank["summary"][number] | null;
  /** Index of the lane within its track. */
  depth: number;
}

export class LaneIndex {
  /** Sorted by first lane. */
  private readonly locations: (Omit<LaneLocation, "depth"> & { lane0: number; lanes: number })[];

  constructor(readonly scene: Scene) {
    const locations = scene.ranks.flatMap((rank) => [
      ...rank.summary.map((summary) => {
        return { rank, track: null, summary, lane0: summary.lane, lanes: 1 };
      }),
      ...rank.tracks.map((track) => {
        return { rank, track, summary: null, lane0: track.lane0, lanes: track.lanes };
      }),
    ]);
    this.locations = locations.sort((a, b) => a.lane0 - b.lane0);
  }

  locate(lane: number): LaneLocation | null {
    let low = 0;
    let high = this.locations.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.locations[middle]!.lane0 <= lane) low = middle + 1;
      else high = middle;
    }
    const location = this.locations[low - 1];
    if (location === undefined || lane >= location.lane0 + location.lanes) return null;
    const { rank, track, summary, lane0 } = location;
    return { rank, track, summary, depth: lane - lane0 };
  }

  findRank(rank: number): SceneRank | null {
    return this.scene.ranks.find((sceneRank) => sceneRank.rank === rank) ?? null;
  }

  /** Return the table to which a slice's ID refers. */
  tableOf(slice: Slice): TableName {
    const role = this.locate(slice.lane)?.track?.role;
    if (role === "async") return "asyncs";
    return role === "instant" ? "instants" : "events";
  }
}
