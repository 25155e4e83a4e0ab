/** The nodes before and after a node, in words. */

import { clip } from "../format";
import type { Structure } from "./structure";

/** number of characters for the names of nodes */
const NAMES = 400;
/** the output of an edge of control, which carries no value */
const NO_OUTPUT = -1;

/** The operands of a node: inputs of the graph, constants by their values, and other nodes. */
export function operandsOf(node: number, s: Structure): string {
  const taken: string[] = [];
  const [froms, tos, outputs] = [s.numbers("from"), s.numbers("to"), s.numbers("output")];
  for (let e = 0; e < s.edges; e++) {
    if (tos[e] !== node || outputs[e] === NO_OUTPUT) continue;
    const from = froms[e]!;
    if (from < 0) taken.push(s.inputs[-1 - from] ?? "");
    else taken.push(s.text("kind", from) === "constant" ? `the constant ${s.text("value", from)}` : s.text("name", from));
  }
  return clip(taken.join(", "), NAMES);
} // prettier-ignore

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
