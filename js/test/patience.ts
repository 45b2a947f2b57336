/** What a test waits for may come late on a busy machine; one that is broken fails all the same. */

import { vi } from "vitest";

const { waitFor } = vi;

vi.waitFor = (call, options = 8_000) => waitFor(call, options);
