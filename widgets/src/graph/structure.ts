/** The structure of a graph as columns (eagerflow/watching/graph_columns.py): the data needed to draw it. */

import { padded } from "../feed/tables";

type Column = Uint32Array | Int32Array;

const TEXTS = [
  "op", "name", "scope", "layer", "device", "reason", "source", "type", "within", "kind", "value",
  "resources", "effect", "attributes",
] as const; // prettier-ignore
type TextColumn = (typeof TEXTS)[number];
type NumberColumn = "parent" | "forward" | "bytes" | "from" | "to" | "output";

interface Head {
  version: number;
  graph: string;
  nodes: number;
  edges: number;
  inputs: string[];
  outputs: string[];
  strings: string[];
  columns: [name: string, type: "u4" | "i4", count: number][];
}

export class Structure {
  private deviceNames: readonly string[] | null = null;

  constructor(
    private readonly head: Head,
    private readonly columns: ReadonlyMap<string, Column>,
  ) {}

  get graph(): string {
    return this.head.graph || "graph";
  }

  /** number of nodes */
  get count(): number {
    return this.head.nodes;
  }

  get edges(): number {
    return this.head.edges;
  }

  get inputs(): readonly string[] {
    return this.head.inputs;
  }

  get outputs(): readonly string[] {
    return this.head.outputs;
  }

  text(column: TextColumn, node: number): string {
    return this.head.strings[this.columns.get(column)?.[node] ?? -1] ?? "";
  }

  number(column: NumberColumn, at: number): number {
    return this.columns.get(column)?.[at] ?? -1;
  }

  /** The name of the node to whose derivative a node belongs; empty for others. */
  gradientOf(node: number): string {
    const forward = this.number("forward", node);
    return forward < 0 ? "" : this.text("name", forward);
  }

  /** All numbers of a column. */
  numbers(column: NumberColumn): ArrayLike<number> {
    return this.columns.get(column) ?? [];
  }

  /** A column of texts as codes: equal texts have equal codes. */
  codes(column: TextColumn): ArrayLike<number> {
    return this.columns.get(column) ?? [];
  }

  /** The text of a code. */
  decode(code: number): string {
    return this.head.strings[code] ?? "";
  }

  devices(): readonly string[] {
    if (!this.deviceNames) {
      const numbers = new Set(this.columns.get("device"));
      const names = new Set([...numbers].map((i) => this.head.strings[i] ?? ""));
      this.deviceNames = [...names].filter((name) => name !== "");
    }
    return this.deviceNames;
  }
}

export async function readStructure(parts: readonly Uint8Array<ArrayBuffer>[]): Promise<Structure> {
  const blob = new Blob([...parts]);
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate"));
  return parseStructure(await new Response(stream).arrayBuffer());
}

export function parseStructure(raw: ArrayBuffer): Structure {
  const length = new DataView(raw).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(raw, 4, length));
  const head = JSON.parse(text) as Head;
  const columns = new Map<string, Column>();
  let position = padded(4 + length);
  for (const [name, type, count] of head.columns) {
    const kind = type === "u4" ? Uint32Array : Int32Array;
    columns.set(name, new kind(raw, position, count));
    position += padded(4 * count);
  }
  return new Structure(head, columns);
}

/** A structure from plain columns, for tests. */
export function makeStructure(
  nodes: readonly Partial<Record<TextColumn, string> & { parent: number; forward: number; bytes: number }>[],
  edges: readonly (readonly [from: number, to: number, output?: number])[] = [],
  ends: { inputs?: string[]; outputs?: string[] } = {},
): Structure {
  const strings: string[] = [];
  const columns = new Map<string, Column>();
  for (const name of TEXTS) {
    columns.set(name, Uint32Array.from(nodes, (n) => strings.push(n[name] ?? "") - 1));
  }
  for (const name of ["parent", "forward", "bytes"] as const) {
    columns.set(name, Int32Array.from(nodes, (n) => n[name] ?? -1));
  }
  columns.set("from", Int32Array.from(edges, (e) => e[0]));
  columns.set("to", Int32Array.from(edges, (e) => e[1]));
  columns.set("output", Int32Array.from(edges, (e) => e[2] ?? 0));
  const head: Head = {
    version: 1, graph: "made", nodes: nodes.length, edges: edges.length,
    inputs: ends.inputs ?? [], outputs: ends.outputs ?? [], strings, columns: [],
  }; // prettier-ignore
  return new Structure(head, columns);
}
