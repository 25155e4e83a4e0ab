/** The cost of each layer: its ops, their derivatives, and the updates of its variables, added up. */

import { number, type Row } from "../feed/tables";
import { share } from "../format";
import { trainingPhases } from "./groups";
import type { Structure } from "./structure";
import { typeOf } from "./types_of_nodes";

/** parts of a step that add up to more are of nodes that run at the same time */
const OVERLAP = 1.02;
export const PHASES = ["forward", "backward", "update"] as const;
export type Phase = (typeof PHASES)[number];

/** The static data of a layer. */
export interface Layer {
  /** name scope; empty for nodes of no layer, or of several */
  readonly name: string;
  /** index in the order in which layers run, from 1 on; 0 if it is no layer */
  readonly place: number;
  /** number of elements of the variables that it reads; -1 if unknown */
  readonly parameters: number;
  /** bytes of all values of its nodes */
  readonly bytes: number;
  /** type of its result */
  readonly gives: string;
}

/** The cost of a layer in a step. */
export interface LayerCost extends Layer {
  readonly seconds: number;
  /** part of the time of a step, and its division into phases */
  readonly share: number;
  readonly phases: Readonly<Record<Phase, number>>;
  /** the slowest node; the first one if none was observed */
  readonly node: number;
}

export class Layers {
  readonly all: readonly Layer[];
  /** the part of a training step of each node; null without derivatives */
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

  /** Layers with observed costs, from rows of the table of nodes: slowest first, equal ones in their order. */
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

  /** The shares of a step spent forward, backward and in updates. */
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

/** Why parts of a step add up to more than it; empty if they do not. */
export function overlapText(costs: readonly LayerCost[]): string {
  const total = costs.reduce((sum, layer) => sum + layer.share, 0);
  return total > OVERLAP ? `nodes run at the same time, so parts add up to ${share(total)}` : "";
}

/** The text for a layer, also for nodes outside of all layers. */
export function layerName(name: string): string {
  return name || "outside of layers";
}

/** The index of a layer in the forward pass; others come last. */
function placeOf(layer: Layer): number {
  return layer.place || Number.MAX_VALUE;
}

function resourcesOf(s: Structure, node: number): [name: string, type: string][] {
  const lines = s.text("resources", node).split("\n").filter(Boolean);
  return lines.map((line) => line.split(": ") as [string, string]);
}

/**
 * Number of elements of a parameter by its type, such as `f32[2,3]`, -1 if a size is symbolic; 0 for other resources,
 * and for variables that are not trainable.
 */
export function elements(type: string): number {
  if (type.endsWith(", not trainable")) return 0;
  const dims = /^\w+\[(.*)\]/.exec(type)?.[1];
  if (dims === undefined) return 0;
  const sizes = dims ? dims.split(",").map(Number) : [];
  return sizes.some(Number.isNaN) ? -1 : sizes.reduce((a, b) => a * b, 1);
}
