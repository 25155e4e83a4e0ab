/** What each layer costs: its ops, their derivatives, and the updates of what it reads, added up. */

import { number, type Row } from "../feed/tables";
import { trainingPhases } from "./groups";
import type { Structure } from "./structure";
import { typeOf } from "./types_of_nodes";

export const PHASES = ["forward", "backward", "update"] as const;
export type Phase = (typeof PHASES)[number];

/** A layer as it is written, without what was observed of it. */
export interface Layer {
  /** its name scope; empty for what belongs to no layer, or to several */
  readonly name: string;
  /** its place in the order in which layers run, from 1 on; 0 for what is no layer */
  readonly place: number;
  /** elements of the variables that it reads; -1 where that is not known */
  readonly parameters: number;
  /** of all values that its nodes give */
  readonly bytes: number;
  /** the type of what it hands on */
  readonly gives: string;
}

/** What a layer takes of a step. */
export interface LayerCost extends Layer {
  readonly seconds: number;
  /** of the time of a step, and how much of that goes where */
  readonly share: number;
  readonly phases: Readonly<Record<Phase, number>>;
  /** its slowest node; the first one where none was observed */
  readonly node: number;
}

export class Layers {
  readonly all: readonly Layer[];
  /** for each node its part of a training step; null where nothing is derived */
  readonly phases: readonly string[] | null;
  /** the first node of each layer */
  private readonly firsts = new Map<string, number>();

  constructor(private readonly s: Structure) {
    this.phases = trainingPhases(s);
    const inside = new Map<string, number[]>();
    for (let node = 0; node < s.count; node++) {
      const name = s.text("layer", node);
      const known = inside.get(name);
      if (known) known.push(node);
      else inside.set(name, [node]);
    }
    let place = 0;
    this.all = [...inside].map(([name, nodes]) => {
      this.firsts.set(name, nodes[0]!);
      return this.layer(name, name && this.isForward(nodes[0]!) ? ++place : 0, nodes);
    });
  }

  /** Layers with what was observed, from rows of the table of nodes: the slowest first, and else in their order. */
  costs(rows: readonly Row[]): LayerCost[] {
    const sums = new Map<string, { seconds: number; share: number; phases: Record<Phase, number>; node: number; most: number }>();
    for (const row of rows) {
      const [node, part] = [number(row, "node"), number(row, "share")];
      const name = this.s.text("layer", node);
      let sum = sums.get(name);
      if (!sum) sums.set(name, (sum = { seconds: 0, share: 0, phases: { forward: 0, backward: 0, update: 0 }, node, most: 0 }));
      sum.seconds += number(row, "seconds");
      sum.share += part;
      sum.phases[this.phaseOf(node)] += part;
      if (part > sum.most) [sum.most, sum.node] = [part, node];
    }
    const none = { seconds: 0, share: 0, phases: { forward: 0, backward: 0, update: 0 } };
    const all = this.all.map((layer) => ({ node: this.firsts.get(layer.name)!, ...none, ...sums.get(layer.name), ...layer }));
    return all.sort((a, b) => b.share - a.share || placeOf(a) - placeOf(b));
  }

  /** The parts of a step that go forward, backward and into updates. */
  parts(costs: readonly LayerCost[]): Record<Phase, number> {
    const sums = { forward: 0, backward: 0, update: 0 };
    for (const { phases } of costs) for (const phase of PHASES) sums[phase] += phases[phase];
    return sums;
  }

  private phaseOf(node: number): Phase {
    return (this.phases?.[node] ?? "forward") as Phase;
  }

  private isForward(node: number): boolean {
    return this.phaseOf(node) === "forward";
  }

  private layer(name: string, place: number, nodes: readonly number[]): Layer {
    const { s } = this;
    const own = nodes.filter((node) => this.isForward(node));
    const variables = new Map<string, number>();
    for (const node of own) {
      for (const [variable, type] of resourcesOf(s, node)) variables.set(variable, elements(type));
    }
    const sizes = [...variables.values()].filter((size) => size !== 0);
    const bytes = nodes.reduce((sum, node) => sum + Math.max(s.number("bytes", node), 0), 0);
    const last = own.filter((node) => s.text("kind", node) !== "constant").at(-1);
    return {
      name, place, bytes, gives: last === undefined ? "" : typeOf(s, last),
      parameters: sizes.some((size) => size < 0) ? -1 : sizes.reduce((a, b) => a + b, 0),
    };
  } // prettier-ignore
}

/** How a layer is called where there is one line for all that is in none. */
export function layerName(name: string): string {
  return name || "outside of layers";
}

/** Where a layer is in the forward pass; what is no layer comes after all. */
function placeOf(layer: Layer): number {
  return layer.place || Number.MAX_VALUE;
}

function resourcesOf(s: Structure, node: number): [name: string, type: string][] {
  const lines = s.text("resources", node).split("\n").filter(Boolean);
  return lines.map((line) => line.split(": ") as [string, string]);
}

/** Elements of a tensor of a type such as `f32[2,3]`; 0 for what is no tensor, -1 for sizes that are names. */
export function elements(type: string): number {
  const dims = /^\w+\[(.*)\]/.exec(type)?.[1];
  if (dims === undefined) return 0;
  const sizes = dims ? dims.split(",").map(Number) : [];
  return sizes.some(Number.isNaN) ? -1 : sizes.reduce((a, b) => a * b, 1);
}
