/**
 * The user's own line of code behind an event: the innermost Python frame outside of torch and of
 * installed packages.
 *
 * A kernel that `softmax` launched has the frames `torch/nn/functional.py(2103): softmax`,
 * `contextlib.py(79): inner`, `train.py(82): step`; its source line is `train.py:82`.
 */

import type { EventDetail } from "../protocol/source";

export interface SourceLine {
  path: string;
  line: number;
  function: string;
}

/** `train.py(82): step`; names of built-in functions have no file. */
const FRAME = /^(.+\.pyx?)\((\d+)\): (.+)$/s;
/**
 * Files of torch, of installed packages and of Python itself. Profiles shorten paths to those below
 * an entry of `sys.path`, so that `torch` and `contextlib.py` are at the start.
 */
const NOT_OWN = new RegExp(
  "(^|[\\\\/])(site-packages|dist-packages|lib[\\\\/]python3[^\\\\/]*)[\\\\/]|(^|[\\\\/])torch[\\\\/]" +
    "|^(triton|asyncio|collections|concurrent|importlib|logging|multiprocessing|unittest)[\\\\/]" +
    "|^(abc|codecs|contextlib|copy|enum|functools|inspect|queue|runpy|selectors|threading|typing|weakref)\\.py$|^<",
);

/** The line of an event, or of the nearest frame around it or its launch; null if unknown. */
export function findSourceLine({ event, launched_by, parents }: EventDetail): SourceLine | null {
  for (const { name } of [event, ...(launched_by?.frames ?? []), ...parents]) {
    const [, path = "", line, function_ = ""] = FRAME.exec(name) ?? [];
    if (path !== "" && !NOT_OWN.test(path))
      return { path, line: Number(line), function: function_ };
  }
  return null;
}

/** Ask the host to open a file; false if it cannot. */
export function openInHost({ path, line }: SourceLine): boolean {
  const offer = new CustomEvent("hta-open", { detail: { path, line }, cancelable: true });
  return !document.dispatchEvent(offer);
}
