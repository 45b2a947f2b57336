/** Short names of rows, told apart where several are the same: as Python's `charts/data.py`. */

/** Longer parts of names say nothing at a glance; such rows are numbered. */
const LONGEST = 28;

export function toldApart(labels: readonly string[], names: readonly string[]): string[] {
  const told = [...labels];
  for (const rows of same(told)) {
    const words = differences(rows.map((row) => names[row]!));
    rows.forEach((row, at) => {
      if (words[at] !== "") told[row] = `${labels[row]!} (${words[at]!})`;
    });
  }
  const taken = new Set(told);
  for (const rows of same(told)) {
    let number = 1;
    for (const row of rows.slice(1)) {
      const plain = told[row]!;
      while (taken.has(told[row]!)) {
        number += 1;
        told[row] = `${plain} (${number})`;
      }
      taken.add(told[row]!);
    }
  }
  return told;
}

function same(labels: readonly string[]): number[][] {
  const rows = new Map<string, number[]>();
  labels.forEach((label, row) => rows.set(label, [...(rows.get(label) ?? []), row]));
  return [...rows.values()].filter((each) => each.length > 1);
}

/** Of each name the words in which it differs from the others, as few as needed. */
function differences(names: readonly string[]): string[] {
  const words = names.map((name) =>
    Array.from(name.matchAll(/(?:\w+::)*(\w+)/g), (match) => match[1]!),
  );
  const chosen = names.map(() => "");
  const longest = Math.max(...words.map((each) => each.length));
  for (let place = 0; place < longest; place += 1) {
    const open = same(chosen);
    if (open.length === 0) break;
    for (const rows of open) {
      const here = new Map(rows.map((row) => [row, words[row]![place] ?? ""]));
      if (new Set(here.values()).size < 2) continue;
      for (const row of rows) {
        const more = [chosen[row]!, here.get(row)!].filter((each) => each !== "").join(", ");
        if (more.length <= LONGEST) chosen[row] = more;
      }
    }
  }
  return chosen;
}
