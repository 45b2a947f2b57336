/** A busy machine may be late; a broken test fails all the same. */

import { vi } from "vitest";

const { waitFor } = vi;

vi.waitFor = (call, options = 8_000) => waitFor(call, options);
