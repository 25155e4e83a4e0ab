/** Messages of the kernel: tables of numbers and texts, as bytes (eagerflow/watching/tables.py). */

export type Cell = number | string | Uint8Array<ArrayBuffer>;
export type Row = Readonly<Record<string, Cell>>;

/** The schema of a table, which the kernel sends when the feed opens. */
export interface Schema {
  readonly name: string;
  readonly kind: "rows" | "list" | "log";
  /** number of leading columns that form the key of a row */
  readonly key: number;
  readonly columns: readonly (readonly [name: string, type: string])[];
}

export interface Message {
  readonly sequence: number;
  /** by the kernel's clock, in seconds */
  readonly time: number;
  /** whether it replaces all earlier messages */
  readonly whole: boolean;
  readonly tables: ReadonlyMap<Schema, Row[]>;
}

const MAGIC = 0x31464645;
const HEAD = 24;

/** Schemas in the form of the feed: name, kind, number of key columns, columns. */
export function readSchemas(given: unknown): Schema[] {
  const tables = given as [string, Schema["kind"], number, [string, string][]][];
  return tables.map(([name, kind, key, columns]) => ({ name, kind, key, columns }));
}

export function decode(data: DataView, schemas: readonly Schema[]): Message {
  // typed arrays must be aligned, but the buffers of Jupyter begin at any offset
  const bytes = new Uint8Array(data.byteLength);
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  const whole = new DataView(bytes.buffer);
  if (bytes.length < HEAD || whole.getUint32(0, true) !== MAGIC) {
    throw new Error("this is not a message of eagerflow");
  }
  const tables = new Map<Schema, Row[]>();
  let position = HEAD;
  for (let i = whole.getUint32(12, true); i > 0; i--) {
    const schema = schemas[whole.getUint32(position, true)];
    const count = whole.getUint32(position + 4, true);
    if (!schema) throw new Error("a message has an unknown table");
    const rows: Record<string, Cell>[] = Array.from({ length: count }, () => ({}));
    position += 8;
    for (const [name, type] of schema.columns) {
      const [cells, end] = readColumn(bytes.buffer, type, count, position);
      for (let r = 0; r < count; r++) rows[r]![name] = cells[r]!;
      position = end;
    }
    tables.set(schema, rows);
  }
  return {
    sequence: whole.getUint32(8, true),
    time: whole.getFloat64(16, true),
    whole: (whole.getUint32(4, true) & 1) === 1,
    tables,
  };
}

const NUMBERS = { u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array } as const;
const TEXT = new TextDecoder();

function readColumn(
  buffer: ArrayBuffer,
  type: string,
  count: number,
  start: number,
): [ArrayLike<Cell>, number] {
  if (type !== "text" && type !== "bytes") {
    const kind = NUMBERS[type as keyof typeof NUMBERS];
    const length = count * kind.BYTES_PER_ELEMENT;
    // columns of four-byte values may have an odd length: each is padded to eight bytes
    return [new kind(buffer, start, count), start + padded(length)];
  }
  const ends = new Uint32Array(buffer, start, count);
  const first = start + padded(4 * count);
  const cells = Array.from(ends, (end, i) => {
    const part = new Uint8Array(buffer, first + (ends[i - 1] ?? 0), end - (ends[i - 1] ?? 0));
    return type === "text" ? TEXT.decode(part) : part;
  });
  return [cells, first + padded(ends[count - 1] ?? 0)];
}

export function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

export const number = (row: Row, column: string): number => row[column] as number;
