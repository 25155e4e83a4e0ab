/** Graphs and messages for tests. */

import type { FeedModel } from "../src/feed/feed";
import { padded } from "../src/feed/tables";
import { makeStructure, type Structure } from "../src/graph/structure";

/** A forward pass, its derivative and an update. */
export function trainingStep(): Structure {
  return makeStructure(
    [
      { op: "read", name: "w", kind: "op", scope: "net", resources: "w: f32[2]", device: "cpu:0" },
      { op: "matmul", name: "matmul", kind: "op", scope: "net", device: "cpu:0", bytes: 8 },
      { op: "constant", name: "two", kind: "constant", value: "2.0" },
      { op: "multiply", name: "multiply", kind: "op", scope: "net", forward: 1, device: "cpu:0" },
      { op: "subtract", name: "subtract", kind: "op", scope: "w", device: "cpu:0" },
      { op: "assign", name: "assign", kind: "op", scope: "w", resources: "w: f32[2]", device: "cpu:0" },
    ],
    [[-1, 1], [0, 1], [1, 3], [2, 3], [3, 4], [4, 5], [1, -1]],
    { inputs: ["x: f32[2]"], outputs: ["f32[2]"] },
  ); // prettier-ignore
}

/** Nodes one after another, in layers. */
export function layers(count: number, each: number): Structure {
  const nodes = Array.from({ length: count * each }, (_, i) => ({
    op: "exp", name: `exp_${i}`, kind: "op", scope: `net/layer${Math.floor(i / each)}`, device: "cpu:0",
  })); // prettier-ignore
  const edges = nodes.slice(1).map((_, i) => [i, i + 1] as const);
  return makeStructure(nodes, edges);
}

/** A message with one table of numbers of four or eight bytes, or of texts. */
export function message(
  sequence: number,
  table: number,
  columns: readonly (readonly [type: string, cells: readonly (number | string)[]])[],
  whole = false,
): DataView<ArrayBuffer> {
  const rows = columns[0]![1].length;
  const parts: Uint8Array[] = [new Uint8Array(32)];
  const head = new DataView(parts[0]!.buffer);
  [0x31464645, Number(whole), sequence, 1].forEach((n, i) => { head.setUint32(4 * i, n, true); }); // prettier-ignore
  head.setFloat64(16, sequence, true);
  head.setUint32(24, table, true);
  head.setUint32(28, rows, true);
  for (const [type, cells] of columns) parts.push(...column(type, cells));
  const bytes = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  parts.reduce((at, p) => (bytes.set(p, at), at + p.length), 0);
  return new DataView(bytes.buffer);
}

function column(type: string, cells: readonly (number | string)[]): Uint8Array[] {
  if (type === "text") {
    const texts = cells.map((c) => new TextEncoder().encode(String(c)));
    let end = 0;
    const ends = Uint32Array.from(texts, (t) => (end += t.length));
    const all = texts.flatMap((t) => [...t]);
    return [pad(new Uint8Array(ends.buffer)), pad(Uint8Array.from(all))];
  }
  const kinds = { u4: Uint32Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };
  const made = kinds[type as keyof typeof kinds].from(cells as number[]);
  return [pad(new Uint8Array(made.buffer))];
}

function pad(bytes: Uint8Array): Uint8Array {
  const made = new Uint8Array(padded(bytes.length));
  made.set(bytes);
  return made;
}

/** The model of a feed, played: keeps what is sent, and says what a test wants. */
export class FakeModel implements FeedModel {
  comm_live = true;
  readonly sent: Record<string, unknown>[] = [];
  private readonly heard = new Map<string, (...given: never[]) => void>();

  get(name: string): unknown {
    if (name === "version") return 1;
    return [
      ["names", "rows", 1, [["number", "u4"], ["text", "text"]]],
      ["timeline", "log", 0, [["executable", "u4"], ["start", "f8"]]],
      ["places", "list", 0, [["thread", "f8"]]],
    ]; // prettier-ignore
  }

  send(content: object): void {
    this.sent.push(content as Record<string, unknown>);
  }

  on(event: string, heard: (...given: never[]) => void): void {
    this.heard.set(event, heard);
  }

  say(buffer: DataView): void {
    (this.heard.get("msg:custom") as (content: object, buffers: DataView[]) => void)({}, [buffer]);
  }

  end(): void {
    this.comm_live = false;
    (this.heard.get("comm_live_update") as () => void)();
  }
}

/** Blocks with scopes in them, half of them one after the other. */
export function nested(blocks: number, scopes: readonly string[], each: number): Structure {
  const nodes: Parameters<typeof makeStructure>[0][number][] = [];
  const edges: [number, number][] = [];
  for (let block = 0; block < blocks; block++) {
    for (let i = 0; i < scopes.length * each; i++) {
      const at = nodes.length;
      const scope = `net/block${block}/${scopes[Math.floor(i / each)]!}`;
      nodes.push({ op: "exp", name: `exp_${at}`, kind: "op", scope, device: "cpu:0" });
      if (at) edges.push([i || block % 2 ? at - 1 : 0, at]);
      if (i % 7 === 3) edges.push([at - 3, at]);
    }
  }
  return makeStructure(nodes, edges);
}

/** A training step of some layers: each has a derivative beside it and an update of its own. */
export function wideStep(count: number): Structure {
  const nodes: Parameters<typeof makeStructure>[0][number][] = [];
  const edges: [number, number][] = [];
  const ops = ["read", "matmul", "relu"];
  for (let i = 0; i < count; i++) {
    const at = nodes.length;
    for (const op of ops) nodes.push({ op, name: `${op}_${i}`, kind: "op", scope: `net/layer${i}` });
    edges.push([at, at + 1], [at + 1, at + 2], [at - 1, at + 1]);
  }
  for (let i = count - 1; i >= 0; i--) {
    const at = nodes.length;
    for (const op of ["where", "matmul", "multiply"]) {
      nodes.push({ op, name: `d${op}_${i}`, kind: "op", scope: `net/layer${i}`, forward: 3 * i + 1 });
    }
    edges.push([at - 1, at], [at, at + 1], [at, at + 2], [3 * i + 1, at + 2]);
    nodes.push({ op: "assign", name: `assign_${i}`, kind: "op", scope: `adam/layer${i}` });
    edges.push([at + 2, at + 3]);
  }
  return makeStructure(nodes, edges);
}

/** What something gives last; null if it gives nothing. */
export async function last<T>(given: AsyncIterable<T>): Promise<T | null> {
  let value: T | null = null;
  for await (const one of given) value = one;
  return value;
}
