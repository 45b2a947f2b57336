/** Which names a search text means. */

const EXPRESSION = /^\/(.*)\/(i?)$/s;

/** Python's own ways to write a pattern, where JavaScript has others. */
const TRANSLATED: [RegExp, string][] = [
  [/\(\?P</g, "(?<"],
  [/\(\?P=(\w+)\)/g, "\\k<$1>"],
  [/\\A/g, "^"],
  [/\\Z/g, "$"],
];

export interface Matcher {
  test(name: string): boolean;
  error: string | null;
}

const NOTHING: Matcher = { test: () => false, error: null };

/** The matcher of a search text: plain text, or `/expression/`, `/expression/i`. */
export function matcher(text: string): Matcher {
  const expression = EXPRESSION.exec(text);
  if (expression === null || text === "/") {
    const needle = text.toLowerCase();
    if (needle === "") return NOTHING;
    return { test: (name) => name.toLowerCase().includes(needle), error: null };
  }
  const [, source, flags] = expression;
  if (source === undefined || source === "") return NOTHING;
  try {
    const pattern = pythonPattern(source, flags === "i");
    return { test: (name) => pattern.test(name), error: null };
  } catch (error) {
    // The engine repeats the expression before it says what is wrong.
    const reason = String(error).split(": ").at(-1) ?? "";
    return { test: () => false, error: `not a regular expression: ${reason}` };
  }
}

/** A pattern as Python writes it. Throws where it is none. */
export function pythonPattern(source: string, ignoreCase: boolean): RegExp {
  let translated = source;
  let flags = ignoreCase ? "i" : "";
  const inline = /^\(\?([imsx]+)\)/.exec(translated);
  if (inline !== null) {
    translated = translated.slice(inline[0].length);
    for (const flag of inline[1] ?? "")
      if ("ims".includes(flag) && !flags.includes(flag)) flags += flag;
  }
  for (const [python, ours] of TRANSLATED) translated = translated.replace(python, ours);
  try {
    // Whole characters, where the pattern allows it: "u" refuses escapes that have no meaning.
    return new RegExp(translated, `${flags}u`);
  } catch {
    return new RegExp(translated, flags);
  }
}
