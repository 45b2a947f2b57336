/** More time for `waitFor`, because a busy machine may be slow. */

import { vi } from "vitest";

const { waitFor } = vi;

vi.waitFor = (call, options = 8_000) => waitFor(call, options);
