/** The charts of BytePS's and MPI's panels, by id. */

import type { Theme } from "../../draw/theme";
import type { MakeRows } from "../charts/content";
import type { Drawing } from "../charts/drawing";
import { type Dimension, RowsDrawing } from "../charts/rows_drawing";
import type { PanelFrame } from "../types";
import * as servers from "./byteps_server_charts";
import * as workers from "./byteps_worker_charts";
import * as mpi from "./mpi_charts";
import { WindowDrawing } from "./window_drawing";

interface Kind {
  title: string;
  make(frame: PanelFrame, theme: Theme): Drawing | string;
}

function rows(title: string, dimension: Dimension | "window", content: MakeRows): Kind {
  return {
    title,
    make: (frame, theme) => {
      const found = content(frame, theme);
      if (typeof found === "string") return found;
      if (dimension === "window") return new WindowDrawing(found, theme);
      return new RowsDrawing(found, dimension, theme);
    },
  };
}

export const FORMAT_CHARTS: Readonly<Record<string, Kind>> = {
  byteps_gradients: rows("Slowest gradients", "names", workers.gradients),
  byteps_stages: rows("Stages of the pipeline", "ranks", workers.stages),
  byteps_stragglers: rows("Who is late, iteration by iteration", "window", servers.stragglers),
  byteps_blame: rows("Whom PULLs wait for", "ranks", workers.blame),
  byteps_servers: rows("Load of the servers", "ranks", servers.servers),
  byteps_clock: rows("Clocks of servers against workers", "ranks", servers.clock),
  mpi_ranks: rows("Time in MPI, by rank", "ranks", mpi.ranks),
  mpi_sizes: rows("Message sizes", "names", mpi.sizes),
  mpi_routines: rows("MPI routines over ranks", "names", mpi.routines),
};
