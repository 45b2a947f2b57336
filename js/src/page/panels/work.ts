/** Device work of a rank as columns, and the kinds of it. */

import type { Sorted } from "./part";

/** Kinds in which a device is busy are 0 … 2. */
export const BUSY = 3;
export const COMPUTE = 0;
export const COMMUNICATION = 1;

/** A name that device work of one kind has. */
export interface Kernel {
  name: number;
  kind: number;
}

/** Device work, by start. */
export interface Work extends Sorted {
  readonly row: Int32Array;
  readonly kind: Uint8Array;
  /** Place in the rank's kernels. */
  readonly kernel: Int32Array;
  /** The host's call that launched it, -1 for none; from when to when that ran. */
  readonly call: Int32Array;
  readonly callStart: Float64Array;
  readonly callEnd: Float64Array;
  readonly stream: Int32Array;
}
