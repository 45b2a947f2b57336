/** Ranks that are time lines of MPI calls: such files tell nothing of devices. */

interface WithSummary {
  summary: readonly { role: string; label: string }[];
}

/** Whether all that a rank's rows show is MPI; its other time is work, not idleness. */
export function isMpi({ summary }: WithSummary): boolean {
  const rows = summary.filter(({ role }) => role !== "cpu");
  return rows.length > 0 && rows.every(({ label }) => label === "MPI");
}
