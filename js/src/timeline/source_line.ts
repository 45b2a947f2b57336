/**
 * The line of the user's own code behind an event: the innermost Python frame that is not in torch,
 * another package or Python itself. If no such frame exists, frames of other packages are allowed.
 *
 * For example, a kernel launched by `softmax` has the frames `torch/nn/functional.py(2103):
 * softmax`, `contextlib.py(79): inner`, `vllm/worker.py(9): run`, `train.py(82): step`. Its source
 * line is `train.py:82`. Without the last frame, it would be `vllm/worker.py:9`.
 */

import LIBRARIES from "../../../hta_widgets/facts/library_paths.json";
import type { EventDetail } from "../protocol/source";

export interface SourceLine {
  path: string;
  line: number;
  function: string;
}

/** `train.py(82): step`. Names of built-in functions have no file. */
const FRAME = /^(.+\.pyx?)\((\d+)\): (.+)$/s;
/**
 * Files of Python and torch, and of other packages. Profiles shorten paths relative to the entries
 * of `sys.path`, so a path begins with the name of a package or module.
 */
const IN_PYTHON_OR_TORCH = new RegExp(
  `^(${[...LIBRARIES.python, "torch"].join("|")})(\\.pyx?$|[\\\\/])|^<` +
    "|(^|[\\\\/])(torch|lib[\\\\/]python3[^\\\\/]*(?![\\\\/].*-packages)|torchinductor_[^\\\\/]*)[\\\\/]",
);
const IN_PACKAGE = new RegExp(
  `^(${LIBRARIES.packages.join("|")})[\\\\/]|(^|[\\\\/])(site|dist)-packages[\\\\/]`,
);

/** Return the line of an event, or of the nearest frame around it or its launch; or null. */
export function findSourceLine({ event, launched_by, parents }: EventDetail): SourceLine | null {
  let packageLine: SourceLine | null = null;
  for (const { name } of [event, ...(launched_by?.frames ?? []), ...parents]) {
    const [, path = "", line, function_ = ""] = FRAME.exec(name) ?? [];
    if (path === "" || IN_PYTHON_OR_TORCH.test(path)) continue;
    const sourceLine = { path, line: Number(line), function: function_ };
    if (!IN_PACKAGE.test(path)) return sourceLine;
    packageLine ??= sourceLine;
  }
  return packageLine;
}

/** Ask the host to open a file. Return false if it cannot. */
export function openInHost({ path, line }: SourceLine): boolean {
  const offer = new CustomEvent("hta-open", { detail: { path, line }, cancelable: true });
  return !document.dispatchEvent(offer);
}
