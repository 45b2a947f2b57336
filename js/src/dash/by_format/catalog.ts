/** The panels of BytePS's and MPI's files: `panels/catalog.py` in Python. */

import { panel, type PanelKind } from "../panel_kind";

export const FORMAT_PANELS: readonly PanelKind[] = [
  panel(
    "byteps_stragglers",
    "chart",
    "Who is late",
    "each worker's lag, iteration by iteration",
    "window",
    "ranks",
  ),
  panel("byteps_gradients", "chart", "Slowest gradients", "queue, work and tail", "names"),
  panel("byteps_stages", "chart", "Pipeline stages", "by worker and GPU", "ranks"),
  panel("byteps_blame", "chart", "Whom PULLs wait for", "blame and slack by worker", "ranks"),
  panel("byteps_servers", "chart", "Load of the servers", "pushes, pulls and waiting", "ranks"),
  panel("byteps_requests", "table", "Requests of servers", "by key, who comes last", "ranks"),
  panel(
    "byteps_clock",
    "chart",
    "Clocks",
    "servers against workers, with errors",
    "ranks",
    "window",
  ),
  panel("mpi_ranks", "chart", "Time in MPI", "by rank and host", "ranks", "window", "names"),
  panel("mpi_sizes", "chart", "Message sizes", "by routine: calls, time, bytes", "names", "window"),
  panel("mpi_routines", "chart", "Routines over ranks", "mean, least and most", "names", "window"),
  panel("mpi_routine_table", "table", "MPI routines", "calls, bytes and time", "names", "window"),
  panel("mpi_messages", "table", "Messages by size", "shares of calls, time and bytes", "window"),
  panel("mpi_hosts", "table", "Hosts", "how their ranks do", "ranks", "window", "names"),
];

const IDS = new Set(FORMAT_PANELS.map(({ id }) => id));

export function isOfFormat(id: string): boolean {
  return IDS.has(id);
}
