/** The values that a node, or a group of nodes, takes and gives, and their users, in words. */

import { clip, count } from "../format";
import type { Structure } from "./structure";
import { typeOf } from "./types_of_nodes";

/** number of characters for the names of users, and of values that are listed */
const NAMES = 400;
const VALUES = 12;
/** the output of an edge of control, which carries no value */
const NO_OUTPUT = -1;

/** The operands of a node, a line each: inputs of the graph, constants by their values, and values of other nodes. */
export function operandsOf(node: number, s: Structure): string {
  const taken: string[] = [];
  const [froms, tos, outputs] = [s.numbers("from"), s.numbers("to"), s.numbers("output")];
  for (let e = 0; e < s.edges; e++) {
    if (tos[e] === node && outputs[e] !== NO_OUTPUT) taken.push(valueText(froms[e]!, outputs[e]!, s, s.text("scope", node)));
  }
  return listed(taken);
}

/**
 * The values that a group takes from nodes outside of it, and those that it gives to them, a line each. Constants are
 * no values that pass between groups: each group may have its own.
 */
export function crossingsOf(contains: (node: number) => boolean, s: Structure): { takes: string; gives: string } {
  const [takes, gives] = [new Set<string>(), new Set<string>()];
  const [froms, tos, outputs] = [s.numbers("from"), s.numbers("to"), s.numbers("output")];
  for (let e = 0; e < s.edges; e++) {
    const [from, to, output] = [froms[e]!, tos[e]!, outputs[e]!];
    if (output === NO_OUTPUT || (from >= 0 && s.text("kind", from) === "constant")) continue;
    const [starts, ends] = [from >= 0 && contains(from), to >= 0 && contains(to)];
    if (starts !== ends) (ends ? takes : gives).add(valueText(from, output, s));
  }
  return { takes: listed([...takes]), gives: listed([...gives]) };
}

function listed(values: readonly string[]): string {
  const rest = values.length - VALUES;
  return [...values.slice(0, VALUES), ...(rest > 0 ? [`and ${count(rest)} more`] : [])].join("\n");
}

/** A value: its node, the scope of that unless it is the one at hand, and its type. */
function valueText(from: number, output: number, s: Structure, near?: string): string {
  if (from < 0) return s.inputs[-1 - from] ?? "";
  if (s.text("kind", from) === "constant") return `the constant ${s.text("value", from)}`;
  const variable = s.text("op", from) === "read" ? s.text("resources", from).split(":")[0] : "";
  if (variable) return `the variable ${variable}: ${typeOf(s, from, output)}`;
  const scope = s.text("scope", from);
  const place = scope && scope !== near ? ` in ${scope}` : "";
  const type = typeOf(s, from, output);
  return `${s.text("name", from)}${place}${type && `: ${type}`}`;
}

/** The nodes that take the outputs of a node, each with its name scope. */
export function usersOf(node: number, s: Structure): string {
  const users = new Set<string>();
  const [froms, tos, outputs] = [s.numbers("from"), s.numbers("to"), s.numbers("output")];
  for (let e = 0; e < s.edges; e++) {
    if (froms[e] !== node || outputs[e] === NO_OUTPUT) continue;
    const to = tos[e]!;
    const scope = to < 0 ? "" : s.text("scope", to);
    users.add(to < 0 ? "the result" : `${s.text("name", to)}${scope && ` in ${scope}`}`);
  }
  return clip([...users].join(", "), NAMES);
}
