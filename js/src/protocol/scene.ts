/** Check a scene, and find rank and track of a lane. */

import type { Scene, SceneRank, SceneTrack, Slice, TableName } from "./source";

export function readScene(value: unknown): Scene {
  if (value === null || typeof value !== "object") throw new Error("The widget holds no scene.");
  const scene = value as Partial<Scene>;
  if (scene.version !== 1) {
    throw new Error(
      `The kernel's hta_widgets and this page differ: the scene is of version ${String(scene.version)}, ` +
        "this page reads version 1. Restart the kernel and reload the page.",
    );
  }
  if (!Array.isArray(scene.ranks) || !Array.isArray(scene.range)) {
    throw new Error("The scene has no ranks or no range.");
  }
  return scene as Scene;
}

// Rank and track of a lane.

interface LanePlace {
  rank: SceneRank;
  /** Null for a summary lane. */
  track: SceneTrack | null;
  summary: SceneRank["summary"][number] | null;
  /** Lane within the track. */
  depth: number;
}

export class LaneIndex {
  private readonly starts: number[] = [];
  private readonly places: { place: LanePlace; lanes: number }[] = [];

  constructor(readonly scene: Scene) {
    const entries: { lane0: number; lanes: number; place: LanePlace }[] = [];
    for (const rank of scene.ranks) {
      for (const summary of rank.summary) {
        entries.push({
          lane0: summary.lane,
          lanes: 1,
          place: { rank, track: null, summary, depth: 0 },
        });
      }
      for (const track of rank.tracks) {
        entries.push({
          lane0: track.lane0,
          lanes: track.lanes,
          place: { rank, track, summary: null, depth: 0 },
        });
      }
    }
    entries.sort((a, b) => a.lane0 - b.lane0);
    for (const { lane0, lanes, place } of entries) {
      this.starts.push(lane0);
      this.places.push({ place, lanes });
    }
  }

  at(lane: number): LanePlace | null {
    let low = 0;
    let high = this.starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.starts[middle] ?? 0) <= lane) low = middle + 1;
      else high = middle;
    }
    const entry = this.places[low - 1];
    const lane0 = this.starts[low - 1];
    if (entry === undefined || lane0 === undefined || lane >= lane0 + entry.lanes) return null;
    return { ...entry.place, depth: lane - lane0 };
  }

  rank(rank: number): SceneRank | null {
    return this.scene.ranks.find((one) => one.rank === rank) ?? null;
  }

  /** The table that a slice's id counts in. */
  table(slice: Slice): TableName {
    const role = this.at(slice.lane)?.track?.role;
    return role === "async" ? "asyncs" : role === "instant" ? "instants" : "events";
  }
}
