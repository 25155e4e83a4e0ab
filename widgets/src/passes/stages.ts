/** The effects of passes on a graph, requested from the kernel, which runs the passes again. */

import { readStructure, type Structure } from "../graph/structure";

/** The model of a view, over which the view exchanges messages with the kernel. */
export interface ViewModel {
  get(name: string): unknown;
  send(content: object): void;
  on(event: string, heard: (content: Record<string, unknown>, buffers: DataView[]) => void): void;
  off(event: string, heard: (content: Record<string, unknown>, buffers: DataView[]) => void): void;
}

/** A run of a pass that changed something. */
export interface Stage {
  readonly name: string;
  /** the report: the first line says how much changed, each other line is a change */
  readonly lines: readonly string[];
  readonly before: Structure;
  readonly after: Structure;
}

/** The runs for the graph of an executable; 0 stands for the graph of the view itself. */
export function askStages(model: ViewModel, executable: number): Promise<Stage[]> {
  return new Promise((resolve) => {
    const heard = (content: Record<string, unknown>, buffers: DataView[]): void => {
      if (content["passes"] !== executable) return;
      model.off("msg:custom", heard);
      void read(content["stages"] as Pick<Stage, "name" | "lines">[], buffers).then(resolve);
    };
    model.on("msg:custom", heard);
    model.send({ passes: executable });
  });
}

async function read(told: readonly Pick<Stage, "name" | "lines">[], buffers: readonly DataView[]): Promise<Stage[]> {
  const graphs = await Promise.all(buffers.map((b) => {
    const bytes = new Uint8Array(b.byteLength);
    bytes.set(new Uint8Array(b.buffer, b.byteOffset, b.byteLength));
    return readStructure([bytes]);
  })); // prettier-ignore
  return told.map(({ name, lines }, i) => ({ name, lines, before: graphs[i]!, after: graphs[i + 1]! }));
}

export type Change = "gone" | "new" | "other";

/** Nodes that differ between the graphs before and after a pass, by number. */
export function changesOf(stage: Stage): [before: Map<number, Change>, after: Map<number, Change>] {
  const [old, young] = [byName(stage.before), byName(stage.after)];
  // a change that no column shows, such as a reused buffer, is named in the report
  const named = new Set(stage.lines.slice(1).map((line) => /%([\p{L}\w]+)/u.exec(line)?.[1] ?? ""));
  const [before, after] = [new Map<number, Change>(), new Map<number, Change>()];
  for (const [name, node] of old) {
    const other = young.get(name);
    if (other === undefined) before.set(node, "gone");
    else if (named.has(name) || formOf(stage.before, node) !== formOf(stage.after, other)) {
      before.set(node, "other");
      after.set(other, "other");
    }
  }
  for (const [name, node] of young) if (!old.has(name)) after.set(node, "new");
  return [before, after];
}

function byName(s: Structure): Map<string, number> {
  return new Map(Array.from({ length: s.count }, (_, i) => [s.text("name", i), i] as const));
}

function formOf(s: Structure, node: number): string {
  return (["op", "type", "value", "device"] as const).map((column) => s.text(column, node)).join("\n");
}
