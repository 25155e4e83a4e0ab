/** Formatting of numbers, the same in all views. */

const UNITS = [
  [1e-6, "us"],
  [1e-3, "ms"],
] as const;

/** The text of a time, as by `seconds_text` of eagerflow/formatting.py. */
export function seconds(value: number): string {
  for (const [scale, unit] of UNITS) {
    if (value < 999.5 * scale) return `${places(value / scale)} ${unit}`;
  }
  return `${places(value)} s`;
}

function places(value: number): string {
  return value < 9.95 ? value.toFixed(1) : value.toFixed(0);
}

export function bytes(count: number): string {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]] as const) {
    if (count >= size) return `${Number((count / size).toPrecision(3))} ${unit}`;
  }
  return `${count} B`;
}

export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

export function rate(perSecond: number): string {
  return perSecond >= 100 ? count(perSecond) : perSecond.toPrecision(2).replace(/\.0$/, "");
}

export function share(value: number): string {
  if (value > 0 && value < 0.0005) return "under 0.1 %"; // not 0.0, which reads as zero
  return value < 0.0995 ? `${(100 * value).toFixed(1)} %` : `${(100 * value).toFixed(0)} %`;
}

/** A text cut to `length` characters. */
export function clip(text: string, length = 32): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`;
}

/** A line of code with its place, without the folders of its file, which would take all the room. */
export function lineOfCode(source: string): string {
  return source.replace(/^[^:]*\//, "");
}
