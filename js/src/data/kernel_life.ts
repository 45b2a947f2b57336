/** Whether a notebook knows that its kernel has ended: kernels that are shut down say nothing. */

interface KernelLike {
  readonly status?: unknown;
  readonly isDisposed?: unknown;
}

const ENDED = new Set<unknown>(["dead", "terminating"]);

/** Says whether the kernel that is there now has ended; false where the notebook does not tell. */
export function kernelWatch(manager: unknown): () => boolean {
  const kernel = kernelOf(manager);
  if (kernel === null) return () => false;
  return () => ENDED.has(kernel.status) || kernel.isDisposed === true || kernelOf(manager) === null;
}

/** JupyterLab's managers of widgets name their kernel; others do not. */
function kernelOf(manager: unknown): KernelLike | null {
  if (manager === null || typeof manager !== "object" || !("kernel" in manager)) return null;
  const { kernel } = manager;
  return typeof kernel === "object" ? kernel : null;
}
