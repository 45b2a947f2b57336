/** What a timeline's picture is made of, wherever it is looked at: colours, figures, minimap. */

import type { Overlay, Scene, ThemeName } from "../contract";
import type { StageData } from "../data/stage_data";
import type { Camera } from "../layout/camera";
import type { Geometry } from "../layout/geometry";
import type { RowsView } from "../layout/rows_view";
import { type LatenessByRank, latenessByRank, type StatsByRank, statsByRank } from "./by_rank";
import { classPaints, type Classes } from "./class_paints";
import { type ClassParts, partsAt } from "./class_parts";
import { MinimapPicture } from "./head";
import { NO_OVERLAY } from "./overlay";
import type { Frame } from "./painter";
import { type Paints, paintsOf, shadeOf } from "./paints";
import type { Whole } from "./svg/whole";
import { type Theme, THEMES } from "./theme";

/** Where it is looked at. */
export interface Sight {
  geometry: Geometry;
  camera: Camera;
  rows: RowsView;
  /** Whether figures of this view can still come. */
  isLive: boolean;
}

export class StagePicture {
  byName = false;
  lateness: LatenessByRank | null = null;
  overlay: Overlay = NO_OVERLAY;
  private stats: StatsByRank | null = null;
  private minimap: MinimapPicture | null = null;
  private classes: Classes | null = null;
  private parts: ClassParts | null = null;
  private shades: number[] = [];
  private own: Theme;
  private paints: Paints;

  constructor(
    private scene: Scene,
    private data: StageData,
    theme: ThemeName,
  ) {
    this.own = THEMES[theme];
    this.paints = this.paintsNow();
  }

  get theme(): Theme {
    return this.own;
  }

  /** Begin anew: of another scene nothing is known yet. */
  setScene(scene: Scene, data: StageData): void {
    this.scene = scene;
    this.data = data;
    this.shades = [];
    this.stats = null;
    this.lateness = null;
    this.minimap = null;
    this.paints = this.paintsNow();
  }

  setTheme(theme: Theme, geometry: Geometry): void {
    this.own = theme;
    this.paints = this.paintsNow();
    this.takeMinimap(geometry);
  }

  setClasses(classes: Classes | null, parts: ClassParts | null, geometry: Geometry): void {
    this.classes = classes;
    this.parts = parts;
    this.paints = this.paintsNow();
    this.takeMinimap(geometry);
  }

  /** Whether lanes look otherwise with it. */
  setOverlay(overlay: Overlay): boolean {
    const changed = overlay.dimmed !== this.overlay.dimmed;
    this.overlay = overlay;
    if (changed) this.paints = this.paintsNow();
    return changed;
  }

  takeStats(): void {
    const { stats } = this.data;
    this.stats = stats === null ? null : statsByRank(stats);
  }

  takeLateness(): void {
    const { lateness } = this.data;
    this.lateness = lateness === null ? null : latenessByRank(lateness);
  }

  takeMinimap(geometry: Geometry): void {
    this.minimap = this.minimapIn(this.own, geometry);
  }

  /** What a painter draws; `of`: what is drawn instead of what is in sight. */
  frame(sight: Sight, theme = this.own, of: Partial<Whole> = {}): Frame {
    const { scene, stats, data, overlay, lateness } = this;
    const { camera, rows } = sight;
    const geometry = of.geometry ?? sight.geometry;
    const windows = of.windows ?? data.windows;
    const names = of.names ?? data.store.names;
    const ribbon = of.ribbon === undefined ? data.ribbon : of.ribbon;
    const own = of.windows === undefined;
    const paints = own ? this.paints : this.paintsIn(theme);
    const minimap = own ? this.minimap : this.minimapIn(theme, sight.geometry);
    const seen = of.sight ?? rows.sight;
    const view = of.view ?? camera.view;
    const { job } = camera;
    const { placed } = seen;
    const shown = data.stats;
    const stale =
      !sight.isLive &&
      shown !== null &&
      (shown.start !== Math.floor(view[0]) || shown.end !== Math.ceil(view[1]));
    return {
      head: { geometry, theme, scene, job, view, minimap, ribbon, lateness },
      gutter: {
        geometry,
        theme,
        layout: rows.layout,
        placed,
        stats: stale ? null : stats,
        lateness: stale ? null : lateness,
        hits: overlay.search === "" ? null : (overlay.hits ?? null),
      },
      lanes: {
        geometry,
        theme,
        paints,
        keys: this.classes?.keys(theme.name) ?? null,
        scene,
        job,
        view,
        sight: seen,
        lateness,
        ribbon,
        shade: this.byName && !paints.byClass ? (key) => this.shade(key, names) : null,
        window: (lane) => windows.get(lane),
        nameOf: (key) => names.get(key) ?? "",
      },
      margin: { geometry, theme, placed, stats, lateness, stale },
      overlay: {
        geometry,
        theme,
        view,
        sight: seen,
        overlay,
        searched: data.searched,
        chosen: data.chosen,
      },
    };
  }

  private paintsNow(): Paints {
    return this.paintsIn(this.own);
  }

  private paintsIn(theme: Theme): Paints {
    const { kinds } = this.scene;
    return this.classes === null
      ? paintsOf(theme, kinds, this.overlay.dimmed)
      : classPaints(theme, kinds, this.classes);
  }

  private minimapIn(theme: Theme, geometry: Geometry): MinimapPicture | null {
    const { lanesWidth, minimapHeight, dpr } = geometry;
    const { minimap } = this.data;
    if (minimap === null || lanesWidth <= 0) return null;
    const [width, height] = [Math.round(lanesWidth * dpr), Math.round(minimapHeight * dpr)];
    const looks = this.classes?.looks(theme.name);
    const byClass = looks && this.parts ? partsAt(this.parts, looks, theme) : null;
    return new MinimapPicture(minimap, theme, width, height, byClass);
  }

  private shade(key: number, names: ReadonlyMap<number, string>): number {
    this.shades[key] ??= shadeOf(names.get(key) ?? "");
    return this.shades[key];
  }
}
