/** Sorting of table rows. */

/** The column by which rows are sorted, and the direction. */
export interface Order {
  readonly by: number;
  readonly down: boolean;
}

/** Rows sorted by keys, rows without a key last; equal rows keep their order. */
export function ordered<T>(rows: readonly T[], key: (row: T) => string | number, down: boolean): T[] {
  const keyed = rows.map((row) => [key(row), row] as const);
  keyed.sort(([a], [b]) => {
    if ((a === "") !== (b === "")) return a === "" ? 1 : -1;
    return (down ? -1 : 1) * compare(a, b);
  });
  return keyed.map(([, row]) => row);
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
